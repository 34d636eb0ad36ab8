"""`ExpandedActionEnv` plays Algorithm 1 of the paper (arXiv 2510.07581): each turn is a text or one expanded action.

The global state is (history, active environment, latent state). The history is the prompt followed by one growing text: what
the policy wrote, and what expanded actions appended (`observation` = desc(action) + result). It is kept as turns.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from operator import index
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete, OneOf

from agent_envs.base.arguments import whole_number
from agent_envs.base.dialects import THOUGHTS
from agent_envs.base.messages import Message, ToolResult, Utterance
from agent_envs.base.protocol import Malformed, Say
from agent_envs.base.serialization import state_type
from agent_envs.core.env import Episode, Outcome, Task, TaskSource, TurnEnv
from agent_envs.core.episode import MAX_ACTION_CHARACTERS, cut_text, legal_text
from agent_envs.envs.expa.actions import (
    END,
    LANGUAGE,
    ExpandedAction,
    ExternalEnvironment,
    Latent,
    Refusal,
    VocabularyRow,
    expanded_actions,
    expanded_vocabulary,
)
from agent_envs.envs.expa.problem import MAX_LIMIT, Problem

MAX_REFUSED_CHARACTERS = 1000
UNKNOWN = -1  # how an integer that is no expanded action is recorded, whatever its size


@state_type
@dataclass(frozen=True, slots=True)
class ExpandedState:
    """The active environment, the latent state, and how many characters were written; the history is the episode's turns."""

    active: str
    latent: Latent
    written: int = 0


class ExpandedActionEnv(TurnEnv):
    """Base of the ids with expanded actions.

    An action is a text, which extends the language history, or the id of an expanded action; `step` takes both bare, or as
    samples of the action space. Subclasses call `play_problem` in their constructor; `route_to` adds environments.
    """

    environments: tuple[ExternalEnvironment, ...]
    expanded_actions: tuple[ExpandedAction, ...] = ()
    problem: Problem

    def play_problem(self, problem: Problem, max_actions: int) -> None:
        """Take a problem's tasks, reward and environments.

        Args:
            problem: the tasks, their reward, and the environments that actions lead into.
            max_actions: the greatest number of actions of an episode.

        Raises:
            UsageError: the limit is out of its range.
        """
        whole_number(type(self).__name__, "max_actions", max_actions, 1, MAX_LIMIT)
        self.problem = problem
        self.source, self.reward_spec, self.max_turns = problem.source, problem.reward, max_actions
        self.route_to(*problem.environments)

    def route_to(self, *environments: ExternalEnvironment) -> None:
        """Make these the external environments; their order fixes the action ids. UsageError where names clash."""
        self.problem = replace(self.problem, environments=environments)
        self.environments = environments
        self.expanded_actions = expanded_actions(environments)
        self.action_space = OneOf((Utterance(), Discrete(len(self.expanded_actions))))
        self._by_name = {environment.name: environment for environment in environments}
        self._ids = {action.name: action.id for action in self.expanded_actions if action.kind == "act"}

    def expanded_vocabulary(self, tokenizer: Any, first_id: int) -> tuple[VocabularyRow, ...]:
        """Return the rows of a vocabulary for the expanded actions, one an action; see `expanded_vocabulary`.

        Args:
            tokenizer: anything with `encode(text, add_special_tokens=False) -> list of ids`, or a function text -> ids.
            first_id: the first id beyond the vocabulary.
        """
        return expanded_vocabulary(tokenizer, first_id, self.expanded_actions)

    @property
    def history(self) -> str:
        """The text after the prompt, as a language model has it before it: what was written and what was appended."""
        parts = []
        for turn in self.episode.turns:
            parts.append(turn.action if isinstance(turn.action, str) and isinstance(turn.parsed, Say) else "")
            parts += [message.content for message in turn.observation]
        return "".join(parts)

    def form_reminder(self) -> str:
        """Return no reminder: text has no form here."""
        return ""

    def legal_actions(self) -> tuple[int, ...]:
        """Return the ids of the actions legal now, rising: in language `end` and the open routes, else the environment's."""
        state: ExpandedState = self.episode.state
        if state.active == LANGUAGE:
            routes = enumerate(self.environments, start=1)
            return (END, *(place for place, environment in routes if environment.available(state.latent)))
        return tuple(sorted(self._ids[name] for name in self._by_name[state.active].legal(state.latent)))

    def id_of(self, name: str) -> int:
        """Return the id of the expanded action of a name."""
        return next(action.id for action in self.expanded_actions if action.name == name)

    def _begin(self, task: Task, key: str) -> tuple[ExpandedState, tuple[Message, ...]]:
        """Begin in language mode: return the state over the task's world, and the opening messages."""
        return ExpandedState(LANGUAGE, Latent(self.problem.world(task))), self.problem.opening(task)

    def _read(self, action: Any) -> tuple[str | int, tuple[str, ...]]:
        """Return a text, cut to its limit, or an action's number (UNKNOWN if none has it), and notes; UsageError for others."""
        if (
            isinstance(action, tuple)
            and len(action) == 2
            and type(action[0]) in (int, np.int64)
            and action[0] in (0, 1)
        ):
            types = str if action[0] == 0 else (int, np.integer)
            if isinstance(action[1], types) and not isinstance(action[1], bool):
                action = action[1]
        if isinstance(action, str):
            text, notes = legal_text(action)
            state: ExpandedState = self.episode.state
            # Text that will be refused is kept short, and the language of an episode as long as one action may be.
            most = MAX_ACTION_CHARACTERS - state.written if state.active == LANGUAGE else MAX_REFUSED_CHARACTERS
            text, cut = cut_text(text, most)
            return text, notes + cut
        try:
            number = index(action)
        except TypeError:
            number = None
        if number is None or isinstance(action, bool | np.bool_):
            kind = type(action).__name__
            self._refuse(
                f"step() got a {kind}",
                "an action is a str or the id of an expanded action, bare or as the space samples it",
            )
        return (number if 0 <= number < len(self.expanded_actions) else UNKNOWN), ()

    def _advance(self, episode: Episode, action: str | int) -> Outcome:
        """Play a text as writing and a number as an expanded action; success is judged where the episode ends."""
        outcome = self._write(episode, action) if isinstance(action, str) else self._take_action(episode, action)
        return self.problem.with_success(episode, action, outcome, self.max_turns)

    def _write(self, episode: Episode, text: str) -> Outcome:
        """Take a text as language and count its characters; inside an external environment it is refused, the state kept."""
        state: ExpandedState = episode.state
        if state.active != LANGUAGE:
            return self._refusal(state, f"text cannot be written inside {state.active}")
        return Outcome(replace(state, written=state.written + len(text)), Say(text))

    def _take_action(self, episode: Episode, action: int) -> Outcome:
        """Take an expanded action: end, route to an environment or a step of the active one; an illegal one is refused."""
        state: ExpandedState = episode.state
        if action not in self.legal_actions():
            reason = (
                f"{self.expanded_actions[action].name} is not legal" if action != UNKNOWN else "there is no such action"
            )
            return self._refusal(state, f"{reason} {'in' if state.active == LANGUAGE else 'inside'} {state.active}")
        expanded = self.expanded_actions[action]
        if expanded.kind == "end":
            return Outcome(state, None, terminated=True)
        if expanded.kind == "route":
            entered = replace(state, active=expanded.name, latent=Latent(state.latent.world))
            return Outcome(entered, None, (_appendix(expanded.desc, "environment"),))
        environment = self._by_name[state.active]
        observation, latent, left = environment.step(state.latent, expanded.name)
        if not left:
            messages = (_appendix(expanded.desc + observation, "environment"),)
            return Outcome(replace(state, latent=latent), None, messages)
        content = observation.strip().lstrip(":=>").strip()
        trace = environment.trace((*state.latent.keyed, expanded.name))
        result = ToolResult("call_0", environment.name, content, isinstance(observation, Refusal), trace)
        messages = (_appendix(expanded.desc + observation, "tool"),)
        events = (f"{environment.name}: {content}",) if result.error else ()
        return Outcome(replace(state, active=LANGUAGE, latent=Latent(latent.world)), None, messages, (result,), events)

    def _refusal(self, state: ExpandedState, why: str) -> Outcome:
        """Return a refused action's outcome: state kept, Malformed, the reason and, if tools are described, what is legal."""
        explanation = f"\n[{why}]\n"
        if self.problem.described:
            names = [self.expanded_actions[number].name for number in self.legal_actions()]
            free = "text, " if state.active == LANGUAGE else ""
            explanation = f"\n[{why}; legal now: {free}{' '.join(names)}]\n"
        return Outcome(
            state, Malformed(why), (_appendix(explanation, "environment"),), events=(f"illegal action: {why}",)
        )

    def _extras(self, episode: Episode) -> dict[str, Any]:
        """Return the active environment's name and the mask of legal expanded actions, all False after the end."""
        mask = np.zeros(len(self.expanded_actions), dtype=bool)
        if not episode.over:
            mask[list(self.legal_actions())] = True
        return {"active": episode.state.active, "action_mask": mask}


def both_faces(
    name: str,
    summary: str,
    source: Callable[..., TaskSource],
    bases: tuple[type[TurnEnv], type[ExpandedActionEnv]],
    limits: Mapping[str, int],
    choices: Mapping[str, Any],
) -> tuple[Any, Any]:
    """Return two classes NAME and NAMEExpA, which play the tasks of a source as text and with expanded actions.

    Their constructors take, by keyword, what the source takes, the choices of the problem, a limit and `render_mode`; NAME's
    takes `protocol`, too.

    Args:
        name: NAME.
        summary: the docstring of NAME; that of NAMEExpA has ", with expanded actions" in place of ", in text" and the rest.
        source: makes the source; each of its arguments has a default.
        bases: of the two classes, with `play_tasks(source, limit, **choices)`.
        limits: the default of each one's limit, by the name of its argument.
        choices: the defaults of the problem's choices.
    """
    own = list(inspect.signature(source).parameters.values())

    def face(suffix: str, doc: str, base: type[TurnEnv], limit: str) -> Any:
        """Return the class of one face; its constructor takes the source's arguments, the choices and the limit."""
        spoken = {} if suffix else {"protocol": "tags"}
        form = {"examples": 0, "thoughts": THOUGHTS[0], "strict": False}
        defaults: dict[str, Any] = {**choices, **spoken, limit: limits[limit], **form, "render_mode": None}

        def __init__(self: Any, **arguments: Any) -> None:
            """Set up the tasks and the reward; see the class for the arguments."""
            values = {name: arguments.pop(name, default) for name, default in defaults.items()}
            self.render_mode, most = values.pop("render_mode"), values.pop(limit)
            self.take_form(*map(values.pop, form))
            self.play_tasks(source(**arguments), most, **values)

        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value) for name, value in defaults.items()
        ]
        this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        own_by_name = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
        __init__.__signature__ = inspect.Signature([this, *own_by_name, *added])  # type: ignore[attr-defined]
        return type(f"{name}{suffix}", (base,), {"__init__": __init__, "__doc__": doc, "__module__": base.__module__})

    summaries = (summary, f"{summary.partition(', in text')[0]}, with expanded actions.")
    text, expanded = map(face, ("", "ExpA"), summaries, bases, limits)
    return text, expanded


def _appendix(text: str, author: Any) -> Message:
    """Return a text that the environment appends to the assistant's: author and role differ on purpose."""
    return Message("assistant", str(text), author)
