"""A `Session` is an environment and the episode in it, in the words of a trainer's glue: rows, messages, texts and calls."""

import asyncio
import contextlib
import copy
import json
import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium as gym

from agent_envs.base.arguments import display_value, whole_numbers
from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import sound_json
from agent_envs.base.serialization import plain_value
from agent_envs.core.env import core_of, spec_json
from agent_envs.core.registry import NAMESPACE, full_id
from agent_envs.core.snapshot import fork
from agent_envs.services.chat import ChatReply
from agent_envs.services.chat.conversation import read_native_call

Row = dict[str, Any]
KeyedEnv = tuple[str, gym.Env[Any, Any]]
Calls = Sequence[tuple[str | None, Any]]  # native calls: a name, and arguments as a mapping or as JSON text
# Resets and steps that are under way at once where a trainer lives in an event loop; a thread starts when one is needed.
_THREADS = ThreadPoolExecutor(128, thread_name_prefix="agent_envs")


class Session:
    """One environment, made when it is first needed, and the newest episode in it. A call beside another is a UsageError.

    Attributes:
        info: of the last reset or step; `text` is what it showed.
        tools: schemas of native tools; `rewards` are those of the turns so far.
        history: the conversation as chat messages, the policy's turns among them, calls in their canonical text.
        end: "" while the episode goes on, then `terminated` or `truncated`; `success` is whether the task was solved.
    """

    def __init__(
        self, env_id: str = "", *, prefills: bool = False, deadline_seconds: float = 300.0, **arguments: Any
    ) -> None:
        """Set the environment, unless rows name it. With `prefills` the caller begins turns with `info["prefill"]`."""
        self.env_id, self.arguments = env_id, _arguments(arguments)
        self.prefills, self.deadline_seconds = prefills, deadline_seconds
        self._keyed_env: KeyedEnv | None = None
        self._under_way: dict[str, object] = {}
        self._start()

    def _start(self) -> None:
        """Reset the record of the episode: texts, tools, history, rewards and end."""
        self.info, self.text = Row(), ""
        self.tools: list[Row] = []
        self.history: list[Row] = []
        self.rewards: list[float] = []
        self.end, self.success = "", False

    @property
    def env(self) -> gym.Env[Any, Any]:
        """The environment of the episode; UsageError where there is none, or a deadline passed in it."""
        if self._keyed_env is None:
            raise UsageError(f"{self.env_id or 'Session'}: no episode yet; call begin() first")
        return self._keyed_env[1]

    def begin(self, row: Mapping[str, Any] | None = None, **options: Any) -> list[Row]:
        """Reset, and return the prompt as chat messages; UsageError for no such environment or task, EnvFault from outside.

        A row of `task_rows` names the episode and its environment (`env_kwargs` may be JSON text); `options` wins over it.
        UsageError: no environment is named, it has no such task, or the row's index is of another one here. EnvFault: an
        outside service failed, which no adapter makes a reward of.
        """
        with self._one_call("begin"):
            return self._record_reset(self._reset(self._take_env(), _merged(row, options)))

    def act(self, action: str | int, calls: Calls = ()) -> list[Row]:
        """Take a turn, a whole text (or an action's number), and return the messages in answer; UsageError before `begin`."""
        action = canonical_action(action, calls)
        with self._one_call("act"):
            return self._record_step(action, self.env.step(action))

    async def begin_async(self, row: Mapping[str, Any] | None = None, **options: Any) -> list[Row]:
        """Begin as `begin` does, in a thread; EnvFault behind the deadline."""
        with self._one_call("begin_async"):
            return self._record_reset(await self._in_thread(self._reset, self._take_env(), _merged(row, options)))

    async def act_async(self, action: str | int, calls: Calls = ()) -> list[Row]:
        """Act as `act` does, in a thread; EnvFault behind the deadline."""
        action = canonical_action(action, calls)
        with self._one_call("act_async"):
            return self._record_step(action, await self._in_thread(self.env.step, action))

    def make(self) -> gym.Env[Any, Any]:
        """Return the environment that the session names; it is made where it is not there yet."""
        self._keyed_env = self._env_of(self._keyed_env, {})
        return self._keyed_env[1]

    def fork(self) -> "Session":
        """Return a session in the same episode, on a fork of the environment."""
        with self._one_call("fork"):
            twin = copy.copy(self)
            twin._keyed_env = (self._keyed_env[0], fork(self.env)) if self._keyed_env else None
            twin.history, twin.rewards, twin._under_way = list(self.history), list(self.rewards), {}
            return twin

    def close(self) -> None:
        """Close the environment; a next `begin` makes another."""
        with self._one_call("close"):
            if self._keyed_env is not None:
                self._keyed_env[1].close()
                self._keyed_env = None

    @contextlib.contextmanager
    def _one_call(self, name: str) -> Iterator[None]:
        """Hold the session for one call; UsageError while another is under way, whose turns would be of the same episode."""
        mine = object()
        if self._under_way.setdefault("call", mine) is not mine:  # in one step, for threads, too
            raise UsageError(
                f"{self.env_id or 'Session'}: {name}() while another call is under way; wait, or give each episode a Session"
            )
        try:
            yield
        finally:
            del self._under_way["call"]

    def _take_env(self) -> KeyedEnv | None:
        """Take the environment out for a reset; the last episode is over even if the reset fails."""
        keyed_env, self._keyed_env = self._keyed_env, None
        return keyed_env

    def _env_of(self, keyed_env: KeyedEnv | None, row: Mapping[str, Any]) -> KeyedEnv:
        """Return (key, environment) of a row: the last if equal, else a new one, the last closed; UsageError without a name."""
        if not (name := row.get("env_id") or self.env_id):
            raise UsageError("Session: no environment; give Session(env_id), or a row of task_rows")
        if not isinstance(name, str) or name.startswith((":", ".")):
            raise UsageError(f"Session: env_id={display_value(name)}; give an id as text, or module:id")
        if name != self.env_id:
            _refuse_import(name)
        arguments = self.arguments if row.get("env_kwargs") is None else _arguments(row["env_kwargs"])
        key = json.dumps([name, arguments], sort_keys=True, default=repr)
        if keyed_env is not None:
            if keyed_env[0] == key:
                return keyed_env
            keyed_env[1].close()
        return key, gym.make(full_id(name), **arguments)

    def _reset(self, keyed_env: KeyedEnv | None, row: Row) -> tuple[KeyedEnv, Row]:
        """Reset the environment of a row and return it with the info; UsageError where the index is of another task now."""
        keyed_env = self._env_of(keyed_env, row)
        options = {key: row[key] for key in ("task", "split", "episode_key") if row.get(key) is not None}
        info = keyed_env[1].reset(seed=row.get("seed"), options=options)[1]
        if row.get("task_id") not in (None, info["task_id"]):
            raise UsageError(
                f"the row of task {row['task_id']!r} has the index of {info['task_id']!r} here: list rows again"
            )
        return keyed_env, info

    def _record_reset(self, reset: tuple[KeyedEnv, Row]) -> list[Row]:
        """Begin the record of a new episode, and return its first messages."""
        self._start()
        self._keyed_env, info = reset
        self.tools = info["tools"]
        return self._record_messages(info)

    def _record_step(self, action: str | int, step: tuple[Any, ...]) -> list[Row]:
        """Record a step's reward, end and action, and return its messages."""
        _, reward, terminated, truncated, info = step
        self.rewards.append(float(reward))
        self.end = "terminated" if terminated else "truncated" if truncated else ""
        self.success = bool(info.get("success", False))
        if isinstance(action, str):
            self.history.append({"role": "assistant", "content": action})
        return self._record_messages(info)

    def _record_messages(self, info: Row) -> list[Row]:
        """Record the messages of an info, with the prefill as a request in words where the session has no prefills."""
        self.info, messages = info, list(info["messages"])
        if info["prefill"] and messages and not (self.prefills or self.end):
            text = f"{messages[-1]['content']}\n\nBegin your reply with {info['prefill']}"
            messages[-1] = messages[-1] | {"content": text}
        self.text = "\n\n".join(message["content"] for message in messages)
        self.history = [*(self.history if info["context"] == "append" else ()), *map(dict, messages)]
        return messages

    async def _in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Run a call in a thread with a deadline; EnvFault after it, and the environment is abandoned to its thread."""
        future = asyncio.get_running_loop().run_in_executor(_THREADS, call, *arguments)
        try:
            return await asyncio.wait_for(future, self.deadline_seconds)
        except (TimeoutError, asyncio.CancelledError) as error:
            name = self._keyed_env[1].unwrapped.env_id if self._keyed_env else self.env_id or "Session"  # type: ignore[attr-defined]
            self._keyed_env = None  # its thread may be at it still: nobody else may touch it
            if isinstance(error, asyncio.CancelledError):
                raise
            raise EnvFault(f"{name}: no answer within {self.deadline_seconds:g} s") from None


def _merged(row: Any, options: Row) -> Row:
    """Return a row with the options over it; UsageError where the row is none."""
    if row is not None and not isinstance(row, Mapping):
        raise UsageError(f"Session.begin: row={display_value(row)}; give a row of task_rows, or None")
    return {**(row or {}), **options}


def _arguments(kwargs: Any) -> Row:
    """Return the arguments of an environment from a row, where they may be JSON text; UsageError where they are none."""
    try:
        arguments = sound_json(kwargs) if isinstance(kwargs, str) else kwargs
    except ValueError:
        arguments = None
    names = arguments if isinstance(arguments, Mapping) else [None]
    if "id" in names or not all(isinstance(name, str) for name in names):
        fix = "give a dict by name, or a JSON object as text; env_id is the id"
        raise UsageError(f"Session: env_kwargs={display_value(kwargs)}; {fix}")
    return dict(arguments)


def _refuse_import(name: str) -> None:
    """Raise UsageError for a row's id with a module before it, unless this is ours or has registered the id already.

    Rows may be a stranger's data, and data runs no code.
    """
    module, colon, plain = str(name).partition(":")
    point: Any = gym.registry[plain].entry_point if plain in gym.registry else ""
    home = point.partition(":")[0] if isinstance(point, str) else point.__module__
    if colon and module != NAMESPACE and not f"{home}.".startswith(f"{module}."):
        raise UsageError(f"the row: env_id {name!r} names a module to import; import it first, or give Session(env_id)")


def canonical_action(text: str | int, calls: Calls) -> str | int:
    """Return a text and native calls beside it in the canonical form that environments read; a text alone stays.

    Raises:
        UsageError: a call is no pair of a name, None for a call without one, and arguments.
    """
    if not calls:
        return text
    for call in calls if isinstance(calls, list | tuple) else (calls,):
        if not isinstance(call, list | tuple) or len(call) != 2 or not isinstance(call[0], str | None):
            raise UsageError(f"Session.act: calls={display_value(calls)}; give pairs of a name and its arguments")
        try:
            json.dumps(call[1])
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"Session.act: calls={display_value(calls)}; arguments are JSON: {error}") from error
    read = [read_native_call(f"call_{number}", *call) for number, call in enumerate(calls)]
    texts = [str(text) if text else "", *(call for call in read if isinstance(call, str))]
    native = tuple(call for call in read if isinstance(call, ToolCall))
    return ChatReply("\n".join(filter(None, texts)), native).canonical


def task_rows(
    env_id: str, n: int, split: str = "train", seed: int = 0, repeats: int = 1, **arguments: Any
) -> list[dict[str, Any]]:
    """Return `n` different random tasks of a split as rows, each `repeats` times with own seeds; UsageError for too few.

    A row is plain JSON and the same in every process: `prompt` (chat messages), `task_id`, `task` (its index), `split`, `seed`,
    `env_id` and `env_kwargs`. A rollout begins, in any process, with

        env = gym.make(row["env_id"], **row["env_kwargs"])
        env.reset(seed=row["seed"], options={"task": row["task"], "split": row["split"]})

    whose `info["messages"]` are the row's prompt. The rows of one task form a group, as GRPO has it.

    Args:
        env_id: an id of ours, short or full, or anyone's as `module:namespace/Name-v0`.
        n: how many tasks; they are drawn without replacement.
        split: of which split.
        seed: draws the tasks, and the seeds of the rows.
        repeats: how many rows a task has.
        arguments: of the environment; they must be JSON, because rows travel (UsageError, as for a split with fewer tasks).
    """
    name = full_id(env_id)
    whole_numbers("task_rows", n=(n, 1, None), repeats=(repeats, 1, None))
    env = gym.make(name, **arguments)
    core = core_of(env)
    spec_json(env)  # refuses arguments that cannot travel
    if split not in core.source.splits:
        raise UsageError(f"task_rows: {name} has no split {split!r}; the splits are {', '.join(core.source.splits)}")
    if n > (size := core.source.size(split)):
        raise UsageError(f"task_rows: n={n}; split {split!r} of {name} has {size} tasks")
    importable = f"{NAMESPACE}:{name}" if name.startswith(f"{NAMESPACE}/") else env_id
    rng = random.Random(f"task_rows:{name}:{split}:{seed}")
    rows = []
    for task in rng.sample(range(size), n):
        for _ in range(repeats):
            start = rng.randrange(2**31)
            _, info = env.reset(seed=start, options={"task": task, "split": split})
            row = {"prompt": info["messages"], "task_id": info["task_id"], "task": task, "split": split, "seed": start}
            rows.append(row | {"env_id": importable, "env_kwargs": plain_value(arguments)})
    env.close()
    return rows


_REPLY_MARK = "-said-"


class TokenRecord:
    """The tokens of a session's episode, for trainers that take ids and a mask. No torch: ids are ints.

    Attributes:
        prompt_ids: of the prompt, a given beginning of the first turn included.
        completion_ids: what follows, the policy's tokens and others.
        mask: 1 for each completion token that the policy sampled; `logprobs` are 0.0 at the others.
    """

    def __init__(self, tokenizer: Any, session: Session) -> None:
        """Encode the prompt of the episode that was just begun, with the tools that it offers."""
        self.tokenizer, self.session = tokenizer, session
        self.prompt_ids = self._encode(self._template(session.history) + session.info["prefill"])
        self.completion_ids: list[int] = []
        self.mask: list[int] = []
        self.logprobs: list[float] = []

    def add_sampled(self, ids: Sequence[int], logprobs: Sequence[float] | None = None) -> str:
        """Add the policy's tokens up to the first stop string, logprobs 0.0 if none; return their text less a final EOS."""
        tokens = self._until_stop(list(ids))
        self.completion_ids += tokens
        self.mask += [1] * len(tokens)
        self.logprobs += list(logprobs)[: len(tokens)] if logprobs is not None else [0.0] * len(tokens)
        text_ids = tokens[:-1] if tokens and tokens[-1] == self.tokenizer.eos_token_id else tokens
        return str(self.tokenizer.decode(text_ids, skip_special_tokens=False))

    def encode_answer(self, messages: Sequence[Row]) -> list[int]:
        """Encode the messages that answer the last turn, up to where the next begins; UsageError if tokens cannot be added."""
        info = self.session.info
        if info["context"] != "append":
            raise UsageError("its context is replaced every turn (Memory?), and tokens can only be added")
        before = [{"role": "user", "content": "-"}, {"role": "assistant", "content": _REPLY_MARK}]
        head, mark, closing = self._template([*before, *messages]).partition(_REPLY_MARK)
        if not (mark and head.startswith(self._template(before[:1], more=False))):
            raise UsageError("the chat template rewrites earlier turns: choose one to which messages can be added")
        closing += info["prefill"]
        if self.completion_ids[-1:] == [self.tokenizer.eos_token_id]:
            closing = closing.removeprefix(self.tokenizer.eos_token)
        return self._encode(closing)

    def add(self, ids: Sequence[int]) -> None:
        """Add tokens that the policy did not sample."""
        self.completion_ids += ids
        self.mask += [0] * len(ids)
        self.logprobs += [0.0] * len(ids)

    def _until_stop(self, ids: list[int]) -> list[int]:
        """Return tokens up to the one with which the text first holds a stop text; all where it holds none."""

        def has_stop(length: int) -> bool:  # a longer beginning holds what a shorter one holds
            """Return whether the text of the first `length` tokens holds a stop text."""
            text = self.tokenizer.decode(ids[:length], skip_special_tokens=False)
            return any(end in text for end in self.session.info["stop"])

        return ids[: bisect_left(range(len(ids) + 1), True, key=has_stop)]

    def _template(self, messages: Sequence[Row], more: bool = True) -> str:
        """Return messages in the tokenizer's chat template with the session's tools; with `more` a new turn begins."""
        options = {"tools": self.session.tools or None, "tokenize": False, "add_generation_prompt": more}
        return str(self.tokenizer.apply_chat_template(list(messages), **options))

    def _encode(self, text: str) -> list[int]:
        """Return the ids of a text's tokens, without special ones."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
