"""Questions put to thousands of trained models. `python -m studies` lists them and runs them."""
