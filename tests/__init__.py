"""Tests of the whole project, in folders that mirror its packages."""

from pathlib import Path

ROOT = Path(__file__).parents[1]  # of the checkout
