"""Evaluation: the plan of a run, its statistics, and the page that shows it."""
