"""Tests of the ExpA family."""
