"""Reference trainers: one file an algorithm, over shared formulas and machinery, never shared loops.

Run from a checkout: `python -m trainers.grpo --help`. Read an algorithm's file first: it reads from top to bottom.
"""
