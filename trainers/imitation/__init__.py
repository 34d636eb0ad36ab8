"""Imitation makes episodes to learn from, and the warm start that other algorithms begin with; `trainers.sft` stands on it.

Modules, in reading order:
    imitating: gradient steps towards demonstrations before a trainer's first step, and when that has settled.
    episode_sources: episodes to imitate: solver with flaws, gold answers, own successes, files.
    tool_texts: `tool_episodes`, answers with tools that others published to train on, as episodes to imitate.
    demonstrations: a text environment's solver with deliberate flaws, which strike by chance.
    guesses: answers drawn by chance, as an agent writes them that uses no tool.

A trainer without a warm start loads none of them.
"""

from trainers.run import TrainingRun
from trainers.settings import WarmStartSettings


def warm_start(settings: WarmStartSettings, run: TrainingRun, seed: int) -> None:
    """Imitate demonstrations before another trainer's first step, if settings ask for some."""
    if settings.demonstrations:
        from trainers.imitation.imitating import imitate

        imitate(settings, run, seed)


def check_flaws(text: str, env: str) -> None:
    """Check a setting of flaws for the id of an environment, whose actions may be expanded.

    Raises:
        UsageError: no such name, or no such chance.
    """
    if text != "none":
        from trainers.imitation.episode_sources import check_named

        check_named(text, env)
