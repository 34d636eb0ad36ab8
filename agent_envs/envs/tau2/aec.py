"""`DualControl` is a PettingZoo environment in which both sides of a conversation are played, turn by turn."""

from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from typing import Any, ClassVar

import gymnasium as gym
from gymnasium.spaces import Dict
from pettingzoo import AECEnv  # type: ignore[import-untyped]

from agent_envs.base.arguments import display_value
from agent_envs.base.dialects import outside_thoughts
from agent_envs.base.errors import UsageError
from agent_envs.base.messages import Message, Utterance, text_of
from agent_envs.core.env import checked_seed
from agent_envs.core.episode import legal_text
from agent_envs.core.trajectory import Task
from agent_envs.envs.tau2.agent_view import SideView, errors_of
from agent_envs.envs.tau2.builtin import known_domain
from agent_envs.envs.tau2.dialogue import Dialogue
from agent_envs.envs.tau2.env import Tau2Airline, Tau2Env, Tau2Retail, Tau2Telecom, user_turns
from agent_envs.envs.tau2.evaluation import Evaluation, transcript
from agent_envs.envs.tau2.turn_taking import LIMITS
from agent_envs.services.recording import CallSite

AGENT, USER = "agent_0", "user_0"
_CLASSES: dict[str, type[Tau2Env]] = {"retail": Tau2Retail, "airline": Tau2Airline, "telecom": Tau2Telecom}
_SIDES: dict[str, Any] = {"side": "agent", "user": "scripted", "agent": "scripted", "persona": "task"}
_PLAYERS = {"assistant": AGENT, "user": USER}


class DualControl(AECEnv):  # type: ignore[misc]
    """The agent (`agent_0`) and the user (`user_0`) of one domain; the user speaks first.

    An observation is `{"text": ...}`: what that side has not seen yet, exactly as the Gym ids show it. `infos` holds it as
    chat messages, with the side's tools at reset and what went wrong with its last turn. Both sides get the same
    reward, at the end.

    Attributes:
        dialogue: the conversation so far, immutable, with what both sides see: for tests and records, not for players.
        evaluation: its score, once it is over.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "name": "tau2_dual_control_v0", "render_modes": ["ansi"], "is_parallelizable": False
    }  # fmt: skip

    def __init__(self, domain: str, *, render_mode: str | None = None, **arguments: Any) -> None:
        """Take the domain ("retail", "airline" or "telecom") and the Gym ids' arguments but those that say who plays.

        Raises:
            UsageError: an unknown domain, or an argument out of its range.
            DataMissing: the official data is not on this machine.
        """
        super().__init__()
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise UsageError(f"dual_control: render_mode={render_mode!r}; give 'ansi', or leave it out")
        # With the sides, so that a caller who names them is refused.
        self.core = _CLASSES[known_domain(domain)](**_SIDES, **arguments)
        self.render_mode = render_mode
        self.possible_agents = [AGENT, USER]
        self.agents: list[str] = []
        self.faces = {
            AGENT: self.core.face,
            USER: SideView(self.core.rules, "user", user_turns(self.core.rules.max_steps)),
        }
        self.observation_spaces = {player: Dict({"text": Utterance()}) for player in self.possible_agents}
        self.action_spaces = {player: Utterance() for player in self.possible_agents}
        self.dialogue = Dialogue()
        self.evaluation: Evaluation | None = None
        self._unseen: dict[str, tuple[Message, ...]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the constructor's arguments, and the conversation so far."""
        arguments = {name: value for name, value in self.core.arguments.items() if name not in _SIDES}
        state = {name: value for name, value in vars(self).items() if name != "faces"}
        return partial(type(self), self.core.domain, **arguments), (), state

    def observation_space(self, agent: str) -> Dict:
        """Return the space of a side's observations."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Utterance:
        """Return the space of a side's turns: all texts."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start a conversation: pick the task, open it, and reset both sides' rewards, ends, messages and infos.

        Args:
            seed: picks the task, where none is named.
            options: `task` (index, id, or a Task) and `split`; others are passed over, as PettingZoo's tests demand.
        """
        options = {} if options is None else options
        if not isinstance(options, Mapping):
            raise UsageError(f"dual_control: options={display_value(options)}; give a dict with task and split")
        gym.Env.reset(self.core, seed=checked_seed("dual_control", seed))
        self.task: Task = self.core._pick(options.get("task"), options.get("split", self.core.source.splits[0]))
        public, self.dialogue = self.core.opened(self.task)
        self.evaluation = None
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._unseen = {player: face.opening(public, self.dialogue) for player, face in self.faces.items()}
        self._turn_counts = dict.fromkeys(self.agents, 0)
        self.infos = {
            player: self._info(player) | {"tools": deepcopy(list(self.faces[player].tools))} for player in self.agents
        }
        self.agent_selection = _PLAYERS[self.dialogue.turn]

    def observe(self, agent: str) -> dict[str, str]:
        """Return a side's messages not seen before its turn, as text; UsageError for an unknown side or before reset()."""
        if agent not in self._unseen:
            fix = f"the sides are {AGENT} and {USER}" if self._unseen else "call reset() first"
            raise UsageError(f"dual_control: observe({agent!r}); {fix}")
        return {"text": text_of(self._unseen[agent])}

    def step(self, action: str | None) -> None:
        """Take the turn of the side whose turn it is, or remove that side if over; UsageError for no text or no episode."""
        if not self.agents:
            raise UsageError("dual_control: step() without a conversation; call reset() first")
        player = self.agent_selection
        if self.terminations[player] or self.truncations[player]:
            self._was_dead_step(action)
            return
        if not isinstance(action, str):
            raise UsageError(
                f"tau2: step() got a {type(action).__name__}; an action is a str, the whole text of the turn"
            )
        text, notes = legal_text(action)
        before, face = self.dialogue, self.faces[player]
        turn = face.hear(before, outside_thoughts(text)[0])
        self.dialogue = turn.dialogue
        self._turn_counts[player] += 1
        self._cumulative_rewards[player] = 0.0
        self._clear_rewards()
        self._unseen[player] = turn.notices
        for one, its in self.faces.items():
            self._unseen[one] = (*self._unseen[one], *its.news(before, self.dialogue))
            self.infos[one] = self._info(one)
        self.infos[player]["events"] = [*notes, *turn.events, *errors_of(face.results(before, self.dialogue))]
        if self.dialogue.ended or self._turn_counts[player] >= face.turns:
            self._end()
        self.agent_selection = _PLAYERS[self.dialogue.turn]
        self._accumulate_rewards()

    def render(self) -> str | None:
        """Return the whole conversation, both sides' calls included; None unless made with render_mode="ansi"."""
        return transcript(self.dialogue.lines) if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Close the environment, which holds nothing that could stay open."""

    def _end(self) -> None:
        """Score the conversation by the chosen reward, alike for both; one that a limit ended is truncated, not terminated."""
        self.evaluation = self.core.score(self.task, self.dialogue, CallSite(self.task.id))
        score = self.evaluation
        earned = score.reward_without_nl if self.core.reward == "without_nl" else score.reward
        if self.core.reward == "dense":
            earned = self.core.reached(self.task, self.dialogue)
        cut = not self.dialogue.ended or self.dialogue.ended in LIMITS
        self.rewards = dict.fromkeys(self.agents, earned)
        self.terminations = dict.fromkeys(self.agents, not cut)
        self.truncations = dict.fromkeys(self.agents, cut)

    def _info(self, player: str) -> dict[str, Any]:
        """Return a player's info: the task's id, and the messages that the player has not been given yet."""
        messages = [message.as_dict() for message in self._unseen[player]]
        return {"task_id": self.task.id, "messages": messages, "events": []}
