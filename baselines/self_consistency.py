"""Self-consistency samples another agent's turn several times and plays what most samples agree on (Wang et al. 2023).

`samples` 5 and `temperature` 0.7 (the paper: 40 samples at 0.5 to 0.7, arXiv 2203.11171, section 3). Differs from the paper:
the vote is taken over every turn, so that it also works where turns are actions; on agents that answer at once it is the
paper's. Votes count actions without their thoughts, normalised as answers are; the first of the most frequent is played.
"""

import re
from collections import Counter
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.grading.text_answers import normalise_answer, parse_number
from baselines.chat_agent import ChatAgent, TurnModel
from baselines.view import EpisodeView, final_answer


class SelfConsistency(ChatAgent):
    """An agent that votes over samples."""

    short = "self_consistency"

    def __init__(
        self, model: Any = "", *, of: str = "cot", samples: int = 5, temperature: float = 0.7, **options: Any
    ) -> None:
        """Take the agent to sample, the number of samples, and their temperature; UsageError for an agent without a model."""
        from baselines.agents import agent_class

        super().__init__(model, **options)
        kind = agent_class(of)
        if samples < 1 or not issubclass(kind, ChatAgent):
            raise UsageError(
                f"baseline self_consistency: of={of!r}, samples={samples}; give an agent of a model, and >= 1"
            )
        self.inner = kind(model, **options)
        self.samples, self.temperature = samples, temperature
        self.name = f"{self.name}/{of}x{samples}"

    def turn(self, view: EpisodeView, model: TurnModel) -> str:
        """Return the first sample whose ballot, the action without thoughts, most of the `samples` draws share."""
        model.temperature = self.temperature
        turns = []
        for draw in range(self.samples):
            model.draw = draw
            turns.append(self.inner.turn(view, model))
        votes = Counter(map(ballot, turns))
        return max(turns, key=lambda text: votes[ballot(text)])


def ballot(action: str) -> str:
    """Return an action as it is counted: without thoughts; numbers by their value, other texts normalised as answers are."""
    text = re.sub(r"<think>.*?</think>", "", action, flags=re.S)
    number = parse_number(final_answer(text)) if "####" in text or "<answer>" in text else None
    return str(number) if number is not None else normalise_answer(re.sub(r"</?\w+>", " ", text))
