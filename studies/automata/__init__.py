"""Pictures of automata for the pages."""
