"""Small scripts by hand, and conversations of a scripted user with agents whose lines are given."""

from collections.abc import Callable, Mapping
from typing import Any

from agent_envs.base.messages import ToolCall
from agent_envs.base.serialization import canonical_json
from agent_envs.envs.tau2.builtin import builtin_domain
from agent_envs.envs.tau2.dialogue import Dialogue
from agent_envs.envs.tau2.partners import take_turn
from agent_envs.envs.tau2.scene import Scene
from agent_envs.envs.tau2.task_schema import core_task, read_task
from agent_envs.envs.tau2.task_states import initial_world
from agent_envs.envs.tau2.toolkit import Domain
from agent_envs.envs.tau2.turn_taking import Rules, opened, spoke
from agent_envs.envs.tau2.users.scripted import ScriptedUser

CANCEL = {
    "say": "I want to cancel my order #W0001.",
    "facts": [
        {"topic": "order", "say": "It is order #W0001.", "value": "#W0001"},
        {"topic": "reason", "say": "I do not need it any more."},
        {"topic": "payment", "say": "The money should go back to my card."},
    ],
    "signs": ["cancel"],
    "declines": ["gift card"],
    "objection": "I want the money back on my card.",
}
ADDRESS = {
    "say": "I want a new address for my order #W0003.",
    "facts": [{"topic": "address", "say": "The new address is 9 Rose Lane, Bonn, 53111.", "value": "9 Rose Lane"}],
    "signs": ["address"],
}
COST = {"say": "How much does the small lamp cost?", "question": True}
SHOPPER = [
    {"topic": "name", "say": "My name is Mira Holm.", "value": "Mira Holm"},
    {"topic": "zip", "say": "My zip code is 10115.", "value": "10115"},
]
CALLER = [
    {"topic": "name", "say": "My name is Greta Falk.", "value": "Greta Falk"},
    {"topic": "phone", "say": "My number is 555-700-1001.", "value": "555-700-1001"},
]
SERVICE = {
    "say": "My phone has no service.",
    "check": {"tool": "check_network_status", "passes": "Cellular Connection: connected"},
}
_PHONE = [
    {"env_type": "user", "func_name": "set_user_info", "arguments": {"name": "Greta Falk", "phone_number": "555-700-1001"}},
    {"env_type": "user", "func_name": "turn_airplane_mode_on", "arguments": {}},
]  # fmt: skip

# Of each domain, a change that an agent can always make.
_CHANGES = {
    "retail": ("modify_user_address", canonical_json({"user_id": "mira_holm_007", "address1": "9 Rose Lane", "address2": "",
        "city": "Bonn", "state": "NW", "country": "Germany", "zip": "53111"})),
    "telecom": ("suspend_line", canonical_json({"customer_id": "C700", "line_id": "L700", "reason": "lost"})),
}  # fmt: skip


def row(*wants: Mapping[str, Any], domain: str = "retail", **script: Any) -> dict[str, Any]:
    """Return a task whose user has a script of these wants."""
    told = {
        "domain": domain,
        "reason_for_call": "x",
        "known_info": None,
        "unknown_info": None,
        "task_instructions": "x",
    }
    facts = SHOPPER if domain == "retail" else CALLER
    return {
        "id": "by-hand",
        "user_scenario": {"persona": None, "instructions": told},
        "initial_state": {"initialization_actions": _PHONE if domain == "telecom" else []},
        "user_script": {"facts": facts, "wants": list(wants), **script},
    }


class Talk:
    """A conversation in which the test speaks for the agent."""

    def __init__(
        self,
        task: dict[str, Any],
        persona: str | Mapping[str, Any] = "task",
        key: str = "key",
        domain: Domain | None = None,
        consent: str = "restate",
    ) -> None:
        """Let the user speak first, in the built-in domain if no other is given."""
        domain = domain or builtin_domain(task["user_scenario"]["instructions"]["domain"])
        public, rules, self.user = read_task(task, domain.name), Rules(domain), ScriptedUser(persona, consent=consent)
        core = core_task(task, "test")
        self.scene: Callable[[Dialogue], Scene] = lambda now: Scene(core, public, rules, "user", now, key)
        self.dialogue = take_turn(self.user, self.scene(opened(rules, initial_world(domain, public))))

    def say(self, text: str) -> str:
        """Speak for the agent; return what the user answers in the end."""
        scene = self.scene(self.dialogue)
        self.dialogue = take_turn(self.user, self.scene(spoke(scene.rules, self.dialogue, text)))
        return self.answer

    def change(self) -> None:
        """Let the agent change something."""
        name, arguments = _CHANGES[self.scene(self.dialogue).rules.domain.name]
        self.dialogue = spoke(
            self.scene(self.dialogue).rules, self.dialogue, "", (ToolCall("call_0", name, arguments),)
        )

    @property
    def answer(self) -> str:
        """The user's last words."""
        return next(line.text for line in reversed(self.dialogue.lines) if line.sender == "user" and not line.calls)

    @property
    def calls(self) -> list[str]:
        """The names of all tools that the user called."""
        return [call.name for line in self.dialogue.lines if line.sender == "user" for call in line.calls]
