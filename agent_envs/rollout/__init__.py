"""TODO: one sentence with a subject and a verb."""
