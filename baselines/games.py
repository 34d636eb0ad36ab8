"""A model plays BabyAI and other games under four conditions: naive, chain of thought, short history, careful reasoning.

BALROG's protocol has them: `naive` names an action at once, `cot` reasons before it, `robust_cot` reasons in a fixed order
and repeats the form. `history` is how many past turns the model sees, 16 in BALROG's text protocol. Differs from BALROG: its
prompts are not used, and thoughts of earlier turns are left out of the history unless `keep_thoughts`.
"""

from typing import Any

from agent_envs.base.errors import UsageError
from baselines.chat_agent import ChatAgent, TurnModel
from baselines.prompts import prompt, sections
from baselines.view import EpisodeView


class GameAgent(ChatAgent):
    """An agent that plays a game with a window of its history."""

    short = "games"

    def __init__(
        self, model: Any = "", *, condition: str = "cot", history: int = 16, keep_thoughts: bool = False, **options: Any
    ) -> None:
        """Take the condition, and the number of past turns to show; UsageError for an unknown condition."""
        super().__init__(model, **options)
        if condition not in sections("games"):
            raise UsageError(
                f"baseline games: condition={condition!r}; the conditions are {', '.join(sections('games'))}"
            )
        self.condition, self.history, self.keep_thoughts = condition, history, keep_thoughts
        self.name = f"{self.name}/{condition}-{history}"

    def turn(self, view: EpisodeView, model: TurnModel) -> str:
        """Return the model's action, shown the prompt, the condition's rule and the last `history` turns (thoughts if kept)."""
        first = next((n for n, row in enumerate(view.messages) if row["role"] == "assistant"), len(view.messages))
        head, rows = list(view.messages[:first]), list(view.messages[first:])
        past = [n for n, row in enumerate(rows) if row["role"] == "assistant"]
        if len(past) > self.history:
            rows = rows[past[len(past) - self.history] :] if self.history else rows[past[-1] + 1 :]
        if not self.keep_thoughts:
            rows = [_without_thoughts(row) for row in rows]
        # The instruction joins the first message of the system, which every wire format takes once.
        rule = prompt("games", self.condition)
        place = next((n for n, row in enumerate(head) if row["role"] == "system"), None)
        if place is None:
            head.insert(0, {"role": "system", "content": rule})
        else:
            head[place] = {**head[place], "content": f"{head[place]['content']}\n\n{rule}"}
        return model.ask([*head, *rows], view.stop)


def _without_thoughts(row: dict[str, Any]) -> dict[str, Any]:
    """Return an assistant's message from its last action label on; other messages as they are."""
    before, label, action = str(row["content"]).rpartition("ACTION:")
    return {**row, "content": f"{label}{action}"} if row["role"] == "assistant" and label else row
