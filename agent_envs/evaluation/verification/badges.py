"""Badges say what a verdict proves; each carries, beside its name, what it does not prove."""

from dataclasses import dataclass

from agent_envs.evaluation.suites.suite import DEMO


@dataclass(frozen=True)
class Badge:
    """One badge, in two sentences, and whether a row that has it is ranked on generated tasks."""

    proves: str
    not_proved: str
    ranked: bool = False


BADGES = {
    "complete": Badge(
        "Every planned episode is there once, in the suite's order, and was played to its end.",
        "It does not prove that this was the only run: many can be played, and the best one packed.",
    ),
    "replayed": Badge(
        "Every action was stepped again here and gave every observation, reward, flag and score.",
        "It does not prove who acted: a person, another model or the built-in solver may have chosen the actions.",
    ),
    "replayed with recordings": Badge(
        "Every action was stepped again, with the recorded answers of outside services; exactly these were asked for.",
        "It proves neither who acted nor that the service gave these answers: they are the submitter's.",
    ),
    "registered": Badge(
        "Its tasks were drawn from a nonce or a salt that was issued after the agent was registered: nobody had seen them.",
        "It does not prove which model acted, nor that the run was the only one after these were known.",
        ranked=True,
    ),
    "reproduced": Badge(
        "The board played the suite again with the named open weights; only the people who run the board give this badge.",
        "It does not prove that the training data held none of the tasks, nor that closed parts of the agent are the same.",
        ranked=True,
    ),
}


def ranked(badges: tuple[str, ...], suite_id: str) -> bool:
    """Return whether a row with these badges is ranked; runs of `demo` never are."""
    return not suite_id.startswith(DEMO) and any(BADGES[name].ranked for name in badges)
