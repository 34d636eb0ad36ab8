"""Tiny models and their tokenizers are made here from nothing: trainers are tested on them, and shown to learn, on a CPU.

A word-level tokenizer takes its words from an environment's own texts. A word and the space before it are one token, and
the same token where no space stands before it (a mark, mostly fused with what precedes, says so), so that a name has one
embedding wherever it stands and copying is easy to learn. Texts that never change, the instructions of a prompt above all,
are single tokens. Whatever is in no vocabulary is spelled in bytes: every text comes back as it was, except for the two
characters that serve as marks.

Modules, in reading order:
    models: models with random weights by size, which start where copying is easy to learn; word- and byte-level tokenizers.
    fitting: a tokenizer fitted to an environment by the episodes of its built-in agents.
    small_calc_bench: `trainers/SmallCalcBench-v0`, four calculator tasks mixed, for tiny models.
"""
