"""Partners are made by name: the simulated user or agent on the other side of a conversation, whose lines `take_turn` adds."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.base.protocol import Call, Say
from agent_envs.envs.tau2.actions import read_action
from agent_envs.envs.tau2.agent_view import SideView
from agent_envs.envs.tau2.dialogue import Dialogue, Line
from agent_envs.envs.tau2.gold_agent import GoldAgent
from agent_envs.envs.tau2.heuristics import act
from agent_envs.envs.tau2.scene import Partner, Scene
from agent_envs.envs.tau2.toolkit import Side
from agent_envs.envs.tau2.turn_taking import answered
from agent_envs.envs.tau2.users.chat import ChatPartner
from agent_envs.envs.tau2.users.scripted import ScriptedUser
from agent_envs.rollout.policy import Request
from agent_envs.services.chat import ChatModel
from agent_envs.services.chat.named import is_chat_model, is_chat_name


class HeuristicAgent:
    """The heuristic of a domain plays the agent's side, for a policy that plays the user."""

    name, service = "heuristic", ""

    def speak(self, scene: Scene) -> tuple[Line | None, Any]:
        """Return the heuristic's line and the memory unchanged; an unreadable turn becomes a question, never None."""
        rules = scene.rules
        face = SideView(rules, "assistant", rules.max_agent_turns or rules.max_steps)
        messages = [message.as_dict() for message in face.conversation(scene.public, scene.dialogue)]
        turn = scene.dialogue.agent_turns
        parsed = read_action(act(Request(scene.key, turn, messages, face.tools)), face.names)
        if isinstance(parsed, Call):
            return Line("assistant", calls=parsed.calls), scene.memory
        text = parsed.text if isinstance(parsed, Say) else "Is there anything else?"
        return Line("assistant", text), scene.memory


# Who plays a side, by name; each takes the persona of a simulated user.
PLAYERS: dict[tuple[Side, str], Callable[[Any], Partner]] = {
    ("user", "scripted"): ScriptedUser,
    ("assistant", "scripted"): lambda persona: GoldAgent(),
    ("assistant", "heuristic"): lambda persona: HeuristicAgent(),
}


def make_partner(
    side: Side, who: str | ChatModel, persona: str | Mapping[str, Any] = "task", guidelines: str = "own"
) -> Partner:
    """Return the partner that plays a side, scripted, heuristic or a chat model; UsageError for an unknown one.

    Args:
        side: "user" or "assistant".
        who: `scripted`, for the assistant `heuristic`, too; or a chat model, as an object or by name (`openai:MODEL@URL`,
            `anthropic:MODEL`).
        persona: of a simulated user; `task` takes the task's own.
        guidelines: of a chat model as user, `own` or `official`.
    """
    if isinstance(who, str) and (side, who) in PLAYERS:
        return PLAYERS[side, who](persona)
    if not (is_chat_name(who) if isinstance(who, str) else is_chat_model(who)):
        role = "user" if side == "user" else "agent"
        names = (name for of_side, name in PLAYERS if of_side == side)
        raise UsageError(f"tau2: {role}={who!r}; choose {', '.join(names)}, openai:MODEL@URL or anthropic:MODEL")
    return ChatPartner(who, persona, guidelines=guidelines)


def take_turn(partner: Partner, scene: Scene) -> Dialogue:
    """Let a partner speak in its scene, and carry out its calls, until it is the other side's turn; return the conversation."""

    def speak(dialogue: Dialogue) -> tuple[Line | None, Any]:
        """Let the partner speak with the conversation as it stands."""
        return partner.speak(scene if dialogue is scene.dialogue else replace(scene, dialogue=dialogue))

    return answered(scene.rules, scene.dialogue, scene.side, speak)
