"""Tests of the sorting tasks."""
