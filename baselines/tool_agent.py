"""Tool agent: a model with native tool calls plays the environment as it stands; on tau2 too, in dual control and solo.

The environment offers tools as schemas (`protocol="json"` where a family has both faces), the model calls them, and results
come back in the roles that the wire formats have. Differs from tau2's own agent: the policy text is the environment's system
message, and a turn without a call is a message to the user there.
"""

from agent_envs.base.errors import UsageError
from baselines.chat_agent import ChatAgent, TurnModel
from baselines.prompts import prompt, system
from baselines.view import EpisodeView


class ToolAgent(ChatAgent):
    """An agent that calls tools natively."""

    short = "tool_agent"
    section = "native"

    def turn(self, view: EpisodeView, model: TurnModel) -> str:
        """Return the model's turn, calls in the canonical text; UsageError without native tools, unless an answer is forced."""
        if not view.tools and not view.forced:
            raise UsageError(
                f"baseline {self.short}: this environment offers no native tools; baseline:tag_agent plays it"
            )
        return model.reply([system(prompt("agent", self.section)), *view.messages], view.stop, view.tools).canonical
