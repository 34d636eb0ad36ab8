"""A tag agent plays by prompt alone, in the tags that the environment names: the untrained interleaved rollout of papers.

This is VEG's and Search-R1's search agent before training, the legal paper's prompted search agent, and EARL's zero-shot
model with a calculator. Native tools, where the environment has them, are passed on. Differs from the papers: the system text
is ours.
"""

from baselines.chat_agent import ChatAgent, TurnModel
from baselines.prompts import prompt, system
from baselines.view import EpisodeView


class TagAgent(ChatAgent):
    """An agent that writes actions in tags."""

    short = "tag_agent"
    section = "tags"

    def turn(self, view: EpisodeView, model: TurnModel) -> str:
        """Return the model's turn, native calls in the canonical text."""
        return model.reply([system(self.instruction(view)), *view.messages], view.stop, view.tools).canonical

    def instruction(self, view: EpisodeView) -> str:
        """Return the text of the system."""
        return prompt("agent", self.section)
