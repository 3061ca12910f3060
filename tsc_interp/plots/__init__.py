"""Results to figures. Nothing here sees a model, and nothing here sets a global theme."""
