"""Generated worlds and tasks, one generator a domain: unbounded, consistent, and solvable by construction."""
