"""Tests of the calculator tasks."""
