"""`TurnEnv` is the contract of every environment here: a step is one turn of a policy. Read this module first.

An environment is a `gymnasium.Env` whose step is one turn of a policy: text in (or the id of an expanded action), text out.
All that changes in an episode is one immutable `Episode`; snapshot, restore, fork and replay follow from that.

A subclass sets `source`, `reward_spec`, `max_turns` (and, where it has them, `tools`, `stop`, `answer_tags`, `written`) in its
constructor, whose arguments are keyword-only and JSON-able, and overrides these (`_read`, too, where actions are expanded):

    _begin(task, key) -> (state, messages)      the first state and what the policy is shown
    _advance(episode, action) -> Outcome        one turn; never raises on any text
    _extras(episode) -> dict                    further info keys (prefill, active, action_mask)
    _picture(episode) -> str                    the svg rendering, where the family has a picture

`register_companions` names the solver, the sampler of legal actions and the heuristic of a class, so that `solve`, the
built-in agents and `check_turn_env` work on environments of other packages too. `base/errors.py` shows the errors.
"""

import inspect
import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from operator import index
from typing import Any, ClassVar, NoReturn

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from agent_envs.base.arguments import display_value, whole_number
from agent_envs.base.errors import UsageError
from agent_envs.base.messages import Message, Utterance, text_of
from agent_envs.base.serialization import canonical_json, decode_state, digest, encode_state, is_local, plain_value
from agent_envs.core.episode import Episode, Outcome, RewardSpec, extend_episode, legal_text
from agent_envs.core.trajectory import Header, Task, TaskSource, Trajectory, transcript
from agent_envs.core.turn_form import TurnForm
from agent_envs.services.run_services import Services

__all__ = [
    "INFO_KEYS", "Episode", "InfoKey", "Outcome", "Task", "TaskSource", "TurnEnv", "TurnWrapper",
]  # fmt: skip
_signature = lru_cache(maxsize=64)(inspect.signature)  # of a constructor: to find it takes a fifth of a `make`
RESET_OPTIONS = ("task", "split", "episode_key")
_PICKLED = ("spec", "render_mode", "services", "action_space", "observation_space", "np_random", "_np_random_seed")


@dataclass(frozen=True)
class InfoKey:
    """When an info key is there (`always`, `reset`, `step`, `end`, `some` environments) and its one type."""

    when: str
    type: type
    doc: str


INFO_KEYS: dict[str, InfoKey] = {
    "task_id": InfoKey("always", str, "id of the task"),
    "turn": InfoKey("always", int, "turns taken, 0 at reset"),
    "turns_left": InfoKey("always", int, "turns that may still be taken, the coming one included"),
    "messages": InfoKey("always", list, "chat messages: the new ones (`append`) or the whole context (`replace`)"),
    "context": InfoKey("always", str, "`append`: the conversation grows; `replace`: the messages are the context now"),
    "prefill": InfoKey("always", str, "text that the next turn must start with; added where it is absent"),
    "stop": InfoKey("always", list, "stop strings for the sampler, kept in the text"),
    "events": InfoKey("always", list, "parse and tool errors of the last turn, in words"),
    "tools": InfoKey("reset", list, "schemas of native tools; empty where the protocol is in the prompt"),
    "reward_terms": InfoKey("step", dict, "name -> share of this step's reward; they sum to it"),
    "success": InfoKey("end", bool, "whether the task was solved"),
    "active": InfoKey("some", str, "ExpA: the active environment"),
    "action_mask": InfoKey("some", object, "ExpA: the legal expanded actions, a numpy bool array of fixed length"),
    "unconsented_changes": InfoKey("some", int, "tau2: changes before the scripted user's first consent, -1 without"),
    "feedback": InfoKey("some", str, "VerbalFeedback: `explore` or `exploit`, as it was drawn; empty for none"),
}


class TurnEnv(TurnForm, gym.Env[str, Any]):
    """Base of every environment here; see the module's text for what a subclass gives."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 1}  # type: ignore[misc]
    source: TaskSource
    reward_spec: RewardSpec
    max_turns: int
    stop: tuple[str, ...] = ()
    context = "append"
    render_mode: str | None = None
    arguments: dict[str, Any]
    services = Services(charged=None)  # recordings and costs of outside services; a runner sets it before the reset
    _overrides: dict[str, Any]
    _episode: Episode | None = None
    _digest = ""

    def __new__(cls, *args: Any, **kwargs: Any) -> "TurnEnv":
        """Record the constructor's arguments, and which of them differ from their defaults."""
        env = super().__new__(cls)
        env.arguments, env._overrides = _constructor_arguments(env, args, kwargs)
        env.action_space, env.observation_space = Utterance(), Utterance()
        return env

    def __deepcopy__(self, memo: dict[int, Any]) -> "TurnEnv":
        """Copy the environment; parts that are shared and never written (`Uncopied`) stay the same objects."""
        twin: TurnEnv = memo.setdefault(id(self), object.__new__(type(self)))
        twin.__dict__.update(deepcopy(self.__dict__, memo))
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what makes it again: its arguments, its spec, its generators, and the episode in its stored form."""
        attributes = {name: getattr(self, name) for name in _PICKLED}
        episode = canonical_json(encode_state(self._episode))
        return partial(type(self), **self.arguments), (), (self.spec_digest, episode, attributes)

    def __setstate__(self, state: tuple[str, str, dict[str, Any]]) -> None:
        """Restore the pickled episode in an environment that was just made."""
        pickled_digest, episode, attributes = state
        for name, value in attributes.items():
            setattr(self, name, value)
        if self.spec_digest != pickled_digest:
            self._refuse("its data here is not what it was pickled with", "unpickle it where the data is the same")
        self._episode = decode_state(json.loads(episode))

    @property
    def env_id(self) -> str:
        """The registered id, or `module:Class`."""
        return self.spec.id if self.spec else f"{type(self).__module__}:{type(self).__qualname__}"

    @property
    def spec_digest(self) -> str:
        """sha256 over id, arguments that are not defaults, the reward's declaration and the digest of outside data."""
        if not self._digest:
            self._digest = digest(
                [self.env_id, plain_value(self._overrides), self.reward_spec.digest, self.source.digest]
            )
        return self._digest

    @property
    def episode(self) -> Episode:
        """The current episode."""
        return self._episode or self._refuse("no episode yet", "call reset() first")

    @property
    def live_service(self) -> str:
        """The outside service that the next turn may call; "" for none, or in a replay."""
        return ""

    @property
    def waits(self) -> bool:
        """Whether a step may wait for something outside this process: a model, a judge, a server, a sandbox."""
        return bool(self.live_service)

    @property
    def trajectory(self) -> Trajectory:
        """The episode so far as a trajectory, task included."""
        return self.episode.trajectory()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode: pick its task and key, begin it, and return the prompt with examples as text, and the info.

        Args:
            seed: seeds `np_random`, which only picks the task.
            options: `task` (index, id, or a Task), `split`, `episode_key` (keys every outside sample).
        """
        options = _check_options(self, {} if options is None else options)
        super().reset(seed=checked_seed(self.env_id, seed))
        task = self._pick(options.get("task"), options.get("split", self.source.splits[0]))
        seed = -1 if seed is None else seed
        key = options.get("episode_key") or digest([self.spec_digest, task.split, task.id, seed])[:16]
        state, messages = self._begin(task, key)
        header = Header(self.env_id, self.spec_digest, task.id, task.split, task.digest, seed, key)
        episode = self._episode = Episode(task, header, messages, state)
        if self.examples:
            messages = self._with_examples(episode)
            episode = self._episode = replace(episode, prompt=messages)
        return text_of(messages), {**_info(self, episode), "tools": _copy(list(self.tools))}

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take one turn; see the class of the environment for what an action is."""
        episode = self.episode
        if episode.over:
            self._refuse("the episode is over", "call reset() before the next step")
        action, notes = self._read(action)
        outcome = self._outcome(episode, action)
        episode = self._episode = extend_episode(episode, action, outcome, self.reward_spec, self.max_turns, notes)
        turn = episode.turns[-1]
        info = _info(self, episode)
        info["reward_terms"] = dict(turn.terms)
        if turn.terminated or turn.truncated:
            info["success"] = episode.success
        return text_of(turn.observation), turn.reward, turn.terminated, turn.truncated, info

    def render(self) -> str | None:
        """Return the transcript (`ansi`) or the picture (`svg`) of the episode so far; None without a render mode."""
        if self.render_mode == "svg":
            return self._picture(self.episode)
        return transcript(self.episode.prompt, self.episode.turns) if self.render_mode == "ansi" else None

    def _begin(self, task: Task, key: str) -> tuple[Any, tuple[Message, ...]]:
        """Begin the episode of a task: return its first state and messages. Each family overrides it."""
        raise NotImplementedError(f"{type(self).__name__} must override _begin(task, key)")

    def _extras(self, episode: Episode) -> dict[str, Any]:
        """Return further keys of a turn's info; none unless a family overrides it."""
        return {}

    def _picture(self, episode: Episode) -> str:
        """Return the svg drawing of an episode; UsageError unless a family overrides it."""
        return self._refuse("this environment has no picture", 'make it with render_mode="ansi"')

    def _read(self, action: Any) -> tuple[Any, tuple[str, ...]]:
        """Return an action as legal text with its warnings; UsageError if it is no str."""
        if not isinstance(action, str):
            self._refuse(f"step() got a {type(action).__name__}", "an action is a str, the whole text of the turn")
        return legal_text(action)

    def _pick(self, task: int | str | Task | None, split: str) -> Task:
        """Choose a task by index, id or chance; a Task is taken as it is. UsageError for an unknown split or task."""
        if isinstance(task, Task):
            return task
        if split not in self.source.splits:
            self._refuse(f"no split {split!r} of {self.source.name}", f"the splits are {', '.join(self.source.splits)}")
        size = self.source.size(split)
        if isinstance(task, int) and abs(task) >= 2**63:
            self._refuse(f"task is an integer of {task.bit_length()} bits", "name a task by index or id")
        pick = self.np_random.integers(size) if task is None else task
        try:
            return self.source.get(split, pick if isinstance(pick, str) else index(pick))
        except (KeyError, IndexError, TypeError) as error:
            why = f"no task {task!r} in split {split!r} ({type(error).__name__}: {error})"
            raise UsageError(f"{self.env_id}: {why}; it has {size} tasks, named by index or id") from error

    def _refuse(self, what: str, fix: str) -> NoReturn:
        """Raise UsageError with the environment's id, what is wrong and how to mend it."""
        raise UsageError(f"{self.env_id}: {what}; {fix}")


class TurnWrapper(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Base of our wrappers: constructor arguments travel in the spec, and `state` (immutable) in snapshots."""

    state: Any = None
    is_lookahead = False  # True of a fork that a solver plays: nobody outside is asked

    def __init__(self, env: gym.Env[Any, Any], **arguments: Any) -> None:
        """Wrap an environment, record the arguments for the spec, and make the label that snapshots compare."""
        RecordConstructorArgs.__init__(self, **arguments)
        gym.Wrapper.__init__(self, env)
        self.label = f"{type(self).__name__}({canonical_json(plain_value(arguments))})"

    @property
    def over(self) -> bool:
        """Whether this wrapper has ended the episode, although the environment has not."""
        return False

    @property
    def waits(self) -> bool:
        """Whether its part of a step may wait for something outside this process; it does not unless a wrapper overrides it."""
        return False

    @property
    def extra_messages(self) -> tuple[Message, ...]:
        """The messages that this wrapper showed in the episode beside the environment's; none unless a wrapper overrides it."""
        return ()

    @property
    def usage(self) -> dict[str, int]:
        """Tokens and calls of its outside services in the episode, by its own names, for the record; {} without any."""
        return {}

    def on_turn_limit(self, turns: int) -> None:
        """Take note of a wrapper further out that ends every episode after so many turns."""

    def turn_env(self) -> TurnEnv:
        """Return the TurnEnv at the core of the stack; UsageError where there is none."""
        if not isinstance(self.unwrapped, TurnEnv):
            raise UsageError(f"{type(self).__name__} wraps a TurnEnv, and {self.unwrapped!r} is none")
        return self.unwrapped


def checked_seed(owner: str, seed: Any) -> int | None:
    """Return a reset's seed, a whole number from 0 on or None; UsageError for others."""
    return None if seed is None else whole_number(owner, "seed", seed, 0, otherwise="None")


def _check_options(env: TurnEnv, options: dict[str, Any]) -> dict[str, Any]:
    """Return a reset's options; UsageError for no dict, an unknown name, an episode key that is empty or no text."""
    if not isinstance(options, Mapping):
        env._refuse(f"options={display_value(options)}", f"give a dict of {', '.join(RESET_OPTIONS)}")
    for name in options:
        if name not in RESET_OPTIONS:
            env._refuse(f"unknown reset option {name!r}", f"the options are {', '.join(RESET_OPTIONS)}")
    key = options.get("episode_key", "default")
    if not isinstance(key, str) or not key:
        env._refuse(f"episode_key={key!r}", "give a text that is not empty, or leave it out")
    return dict(options)


def _copy(value: Any) -> Any:
    """Return plain data with its lists, tuples and mappings (as dicts) copied; all other values are the same objects."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(_copy, value))
    is_map = type(value) is not str and isinstance(value, Mapping)  # which takes long to say no
    return {key: _copy(item) for key, item in value.items()} if is_map else value


def _constructor_arguments(
    env: TurnEnv, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return all constructor arguments, and those that differ from their defaults; UsageError for unknown or non-JSON ones."""
    signature = _signature(type(env).__init__)
    try:
        # Where a required one is missing, __init__ says so.
        bound = signature.bind_partial(env, *args, **kwargs)
    except TypeError as error:
        names = ", ".join(list(signature.parameters)[1:])
        raise UsageError(f"{type(env).__qualname__}: {error}; the arguments are {names}") from None
    bound.apply_defaults()
    arguments = {name: value for name, value in list(bound.arguments.items())[1:] if name != "render_mode"}
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:  # a subclass that hands its arguments on
            arguments |= {key: value for key, value in arguments.pop(name).items() if key != "render_mode"}
    defaults = {name: plain_value(parameter.default) for name, parameter in signature.parameters.items()}
    # In their JSON form, because a tuple that travelled in a spec comes back as a list.
    overrides = {name: value for name, value in arguments.items() if plain_value(value) != defaults.get(name, ...)}
    for name, value in overrides.items():
        try:
            canonical_json(plain_value(value))
        except ValueError as error:
            raise UsageError(f"{type(env).__qualname__}: {name}={value!r}; {error}: give finite numbers") from None
    return arguments, overrides


def _info(env: TurnEnv, episode: Episode) -> dict[str, Any]:
    """Build the info of an episode's newest turn, or of its prompt before the first turn."""
    turns, messages, left = episode.turns, episode.prompt, env.max_turns - len(episode.turns)
    events: list[str] = []  # `list[...]()` would cost twice
    if turns:
        last = turns[-1]
        messages, events, left = last.observation, list(last.events), 0 if last.terminated or last.truncated else left
    return {
        "task_id": episode.task.id, "turn": len(turns), "turns_left": left,
        "messages": [message.as_dict() for message in messages], "context": env.context, "prefill": "",
        "stop": list(env.stop), "events": events, **env._extras(episode),
    }  # fmt: skip


def core_of(env: gym.Env[Any, Any]) -> TurnEnv:
    """Return the TurnEnv at the core of a wrapper stack; UsageError where there is none."""
    if not isinstance(env.unwrapped, TurnEnv):
        raise UsageError(f"this needs a TurnEnv at the core, not {env.unwrapped!r}")
    return env.unwrapped


def turn_wrappers(env: gym.Env[Any, Any]) -> list[TurnWrapper]:
    """Return our wrappers of a stack, from the outermost in."""
    wrappers: list[TurnWrapper] = []
    while isinstance(env, gym.Wrapper):
        wrappers += [env] if isinstance(env, TurnWrapper) else []
        env = env.env
    return wrappers


def shown_messages(env: gym.Env[Any, Any], info: dict[str, Any]) -> tuple[Message, ...]:
    """Return info's messages, authors as environment or wrappers gave them, else `policy` (assistants) or `environment`."""
    episode = core_of(env).episode
    turns = episode.turns if info["context"] == "replace" else episode.turns[-1:]
    prompt = () if turns and info["context"] == "append" else episode.prompt
    by_text = {(m.role, m.content): m for m in (*prompt, *(m for turn in turns for m in turn.observation))}
    by_text |= {(m.role, m.content): m for m in wrapper_messages(env)}
    rows = []
    for row in info["messages"]:
        plain = Message(row["role"], row["content"], "policy" if row["role"] == "assistant" else "environment")
        rows.append(by_text.get((row["role"], row["content"]), plain))
    return tuple(rows)


def wrapper_messages(env: gym.Env[Any, Any]) -> list[Message]:
    """Return the messages that the wrappers of a stack added to the episode."""
    return [message for wrapper in turn_wrappers(env) for message in wrapper.extra_messages]


def wrapper_usage(env: gym.Env[Any, Any]) -> dict[str, int]:
    """Return usage counts of the wrappers of a stack in the episode, by name."""
    return {name: count for wrapper in turn_wrappers(env) for name, count in wrapper.usage.items()}


def spec_json(env: gym.Env[Any, Any]) -> str:
    """Return the JSON text that makes this very stack again, by `EnvSpec.from_json`; UsageError where it cannot travel.

    Raises:
        UsageError: it was not made by `gymnasium.make`, or an argument cannot travel; the message names it.
    """
    core = env.unwrapped
    if env.spec is None:
        raise UsageError(f"{core}: no spec; make it with gymnasium.make(id, ...), then spec_json can repeat it")
    stuck = [name for name, value in core.arguments.items() if is_local(value)] if isinstance(core, TurnEnv) else []
    for wrapper in env.spec.additional_wrappers:
        if wrapper.kwargs is None:
            stuck.append(f"{wrapper.name} (it must be a gymnasium.utils.RecordConstructorArgs)")
        stuck += [f"{wrapper.name}({name})" for name, value in (wrapper.kwargs or {}).items() if is_local(value)]
    if stuck:
        raise UsageError(f"{env.spec.id}: {', '.join(stuck)} cannot travel as JSON; name the collaborator by a string")
    return env.spec.to_json()
