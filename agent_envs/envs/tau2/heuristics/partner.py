"""`HeuristicAgent` lets the heuristic of a domain play the agent for a policy that plays the user."""

from typing import Any

from agent_envs.base.protocol import Call, Say
from agent_envs.envs.tau2.actions import read_action
from agent_envs.envs.tau2.agent_view import SideView
from agent_envs.envs.tau2.dialogue import Line
from agent_envs.envs.tau2.heuristics import act
from agent_envs.envs.tau2.scene import Scene
from agent_envs.rollout.policy import Request


class HeuristicAgent:
    """Plays the agent's side by rules."""

    name, service = "heuristic", ""

    def speak(self, scene: Scene) -> tuple[Line | None, Any]:
        """Return what the domain's rules say to all that was said so far."""
        rules = scene.rules
        face = SideView(rules, "assistant", rules.max_agent_turns or rules.max_steps)
        messages = [message.as_dict() for message in face.conversation(scene.public, scene.dialogue)]
        turn = scene.dialogue.agent_turns
        parsed = read_action(act(Request(scene.key, turn, messages, face.tools)), face.names)
        if isinstance(parsed, Call):
            return Line("assistant", calls=parsed.calls), scene.memory
        text = parsed.text if isinstance(parsed, Say) else "Is there anything else?"
        return Line("assistant", text), scene.memory
