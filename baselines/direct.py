"""Direct answering sends the question to the model and its answer back, without retrieval (VEG's and Search-R1's first row).

Differs from the papers in nothing known: their prompts are not printed. It answers in its first turn, whatever is granted.
"""

from baselines.chat_agent import ChatAgent, TurnModel
from baselines.prompts import prompt, user
from baselines.view import EpisodeView


class Direct(ChatAgent):
    """An agent that answers at once."""

    short = "direct"
    prompts = "direct"

    def turn(self, view: EpisodeView, model: TurnModel) -> str:
        """Return the answer."""
        text = prompt(self.prompts, "turn", question=view.question, form=view.form)
        return view.answer(model.ask([user(text)]))
