"""What builds the site beside mkdocs: hooks, examples of docstrings, the picture of the flow."""
