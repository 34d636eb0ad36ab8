"""Imitation makes episodes to learn from, and the warm start that other algorithms begin with; `trainers.sft` stands on it.

Modules, in reading order:
    warm_start: gradient steps towards demonstrations before a trainer's first step, and when that has settled.
    episode_sources: episodes to imitate: solver with flaws, gold answers, own successes, files.
    demonstrations: a text environment's solver with deliberate flaws, which strike by chance.
    guesses: answers drawn by chance, as an agent writes them that uses no tool.
"""
