"""The sorting tasks: sorting hidden numbers, ordering told ones, and what is exactly known of both."""
