"""A search agent is forced to answer after `turns` turns, from what it has read so far (the legal paper's turn limits).

With 0 turns it is naive RAG where the environment shows a first look, and a direct answer elsewhere. The runner's
`--turn-limits` plays any agent so; this one does it where the limit is to be the agent's own. Differs from the paper: the
forced turn is asked with a prompt of its own, where the paper puts the opening of an answer into the model's mouth, which
newer services refuse.
"""

from typing import Any

from baselines.chat_agent import TurnModel
from baselines.prompts import prompt, user
from baselines.tag_agent import TagAgent
from baselines.view import EpisodeView


class ForcedAnswer(TagAgent):
    """An agent that searches for some turns, then has to answer."""

    short = "forced_answer"

    def __init__(self, model: Any = "", *, turns: int = 2, **options: Any) -> None:
        """Take the number of free turns."""
        super().__init__(model, **options)
        self.turns = turns

    def turn(self, view: EpisodeView, model: TurnModel) -> str:
        """Return TagAgent's turn in the first `turns` turns; later, or when forced, the answer from all documents."""
        if len(view.actions) < self.turns and not view.forced:
            return super().turn(view, model)
        slots = {"question": view.question, "documents": view.documents, "form": view.form}
        return view.answer(model.ask([user(prompt("rag", "turn", **slots))]))
