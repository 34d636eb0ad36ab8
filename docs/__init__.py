"""Generated pages and their generator: `python -m docs.generate`."""
