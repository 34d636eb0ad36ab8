"""Tests of the leaderboard: what is accepted, what is refused, and what no mutation gets through."""
