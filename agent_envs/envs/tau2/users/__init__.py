"""Simulated users: what they know and want, what they understand of an agent's words, and how they answer."""
