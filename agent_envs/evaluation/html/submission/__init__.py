"""What a person submits: the format, packing a run into it, and reading it back."""
