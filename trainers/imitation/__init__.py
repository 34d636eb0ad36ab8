"""Imitation makes episodes to learn from, and the warm start that other algorithms begin with; `trainers.sft` stands on it.

Modules, in reading order:
    imitating: gradient steps towards demonstrations before a trainer's first step, and when that has settled; the
        episodes of demonstrations: solver with flaws, gold answers, own successes, files of runs and of others.
    demonstrations: a text environment's solver with deliberate flaws, which strike by chance.

A trainer without a warm start loads none of them.
"""

from trainers.run import TrainingRun
from trainers.settings import WarmStartSettings


def warm_start(settings: WarmStartSettings, run: TrainingRun, seed: int) -> None:
    """Fine-tune on demonstrations before RL starts; nothing where the settings ask for 0."""
    if settings.demonstrations:
        from trainers.imitation.imitating import imitate

        imitate(settings, run, seed)


def check_flaws(text: str, env: str) -> None:
    """Raise UsageError unless a setting names flaws for an environment id, text or expanded; "none" always fits.

    Raises:
        UsageError: no such name, or no such chance.
    """
    if text != "none":
        from trainers.imitation.imitating import expanded_parts, flaws_of

        expanded = expanded_parts(env, "demonstrations")
        (flaws_of if expanded is None else expanded.expanded_flaws_of)(text)
