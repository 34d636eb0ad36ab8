"""A `Session` is an environment and the episode in it, in the words of a trainer's glue: rows, messages, texts and calls."""

import asyncio
import copy
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.messages import ToolCall
from agent_envs.core.registry import full_id
from agent_envs.core.snapshot import fork
from agent_envs.services.chat import ChatReply
from agent_envs.services.chat.conversation import read_native_call

Row = dict[str, Any]
Made = tuple[str, gym.Env[Any, Any]]
Calls = Sequence[tuple[str, Any]]  # native calls: a name, and arguments as a mapping or as JSON text
# Resets and steps that are under way at once where a trainer lives in an event loop; a thread starts when one is needed.
_THREADS = ThreadPoolExecutor(128, thread_name_prefix="agent_envs")


class Session:
    """One environment, made when it is first needed, and the newest episode in it. One call at a time.

    Attributes:
        info: of the last reset or step; `text` is what it showed.
        tools: schemas of native tools; `rewards` are those of the turns so far.
        history: the conversation as chat messages, the policy's turns among them, calls in their canonical text.
        end: "" while the episode goes on, then `terminated` or `truncated`; `success` is whether the task was solved.
    """

    def __init__(
        self, env_id: str = "", *, prefills: bool = False, deadline_seconds: float = 300.0, **arguments: Any
    ) -> None:
        """Name the environment as `task_rows` does, unless rows do. Who `prefills` begins turns with `info["prefill"]`."""
        self.env_id, self.arguments = env_id, arguments
        self.prefills, self.deadline_seconds = prefills, deadline_seconds
        self._made: Made | None = None
        self._start()

    def _start(self) -> None:
        self.info, self.text = Row(), ""
        self.tools: list[Row] = []
        self.history: list[Row] = []
        self.rewards: list[float] = []
        self.end, self.success = "", False

    @property
    def env(self) -> gym.Env[Any, Any]:
        """The environment of the episode; UsageError where there is none, or a deadline passed in it."""
        if self._made is None:
            raise UsageError(f"{self.env_id or 'Session'}: no episode yet; call begin() first")
        return self._made[1]

    def begin(self, row: Mapping[str, Any] | None = None, **chosen: Any) -> list[Row]:
        """Reset, and return the prompt as chat messages.

        A row of `task_rows` names the episode, and its environment, too (`env_kwargs` may be JSON text); `chosen` wins over it.
        UsageError: no environment is named, it has no such task, or the row's index is of another one here. EnvFault: an
        outside service failed, which no adapter makes a reward of.
        """
        return self._shown(self._reset(self._taken(), {**(row or {}), **chosen}))

    def act(self, action: str | int, calls: Calls = ()) -> list[Row]:
        """Take a turn, its whole text (or a number, where actions are expanded), and return the messages that answer it."""
        action = spoken(action, calls)
        return self._took(action, self.env.step(action))

    async def begin_async(self, row: Mapping[str, Any] | None = None, **chosen: Any) -> list[Row]:
        """Begin as `begin` does, in a thread; EnvFault behind the deadline."""
        return self._shown(await self._in_thread(self._reset, self._taken(), {**(row or {}), **chosen}))

    async def act_async(self, action: str | int, calls: Calls = ()) -> list[Row]:
        """Act as `act` does, in a thread; EnvFault behind the deadline."""
        action = spoken(action, calls)
        return self._took(action, await self._in_thread(self.env.step, action))

    def make(self) -> gym.Env[Any, Any]:
        """Return the environment that the session names; it is made where it is not there yet."""
        self._made = self._making(self._made, {})
        return self._made[1]

    def fork(self) -> "Session":
        """Return a session in the same episode, on a fork of the environment."""
        twin = copy.copy(self)
        twin._made = (self._made[0], fork(self.env)) if self._made else None
        twin.history, twin.rewards = list(self.history), list(self.rewards)
        return twin

    def close(self) -> None:
        """Close the environment; a next `begin` makes another."""
        if self._made is not None:
            self._made[1].close()
            self._made = None

    def _taken(self) -> Made | None:
        """Return what a reset is about to use: whatever becomes of that, the episode before is over."""
        made, self._made = self._made, None
        return made

    def _making(self, made: Made | None, row: Mapping[str, Any]) -> Made:
        if not (name := row.get("env_id") or self.env_id):
            raise UsageError("Session: no environment; give Session(env_id), or a row of task_rows")
        given = row.get("env_kwargs")
        arguments = self.arguments if given is None else json.loads(given) if isinstance(given, str) else given
        key = json.dumps([name, arguments], sort_keys=True, default=repr)
        if made is not None:
            if made[0] == key:
                return made
            made[1].close()
        return key, gym.make(full_id(name), **arguments)

    def _reset(self, made: Made | None, row: Row) -> tuple[Made, Row]:
        """Reset, maybe in a thread that nobody waits for any more: it changes nothing here."""
        made = self._making(made, row)
        options = {key: row[key] for key in ("task", "split", "episode_key") if row.get(key) is not None}
        seed = None if row.get("seed") is None else int(row["seed"])
        info = made[1].reset(seed=seed, options=options)[1]
        if row.get("task_id") not in (None, info["task_id"]):
            raise UsageError(
                f"the row of task {row['task_id']!r} has the index of {info['task_id']!r} here: list rows again"
            )
        return made, info

    def _shown(self, begun: tuple[Made, Row]) -> list[Row]:
        self._start()
        self._made, info = begun
        self.tools = info["tools"]
        return self._told(info)

    def _took(self, action: str | int, step: tuple[Any, ...]) -> list[Row]:
        _, reward, terminated, truncated, info = step
        self.rewards.append(float(reward))
        self.end = "terminated" if terminated else "truncated" if truncated else ""
        self.success = bool(info.get("success", False))
        if isinstance(action, str):
            self.history.append({"role": "assistant", "content": action})
        return self._told(info)

    def _told(self, info: Row) -> list[Row]:
        self.info, messages = info, list(info["messages"])
        if info["prefill"] and messages and not (self.prefills or self.end):
            text = f"{messages[-1]['content']}\n\nBegin your reply with {info['prefill']}"
            messages[-1] = messages[-1] | {"content": text}
        self.text = "\n\n".join(message["content"] for message in messages)
        self.history = [*(self.history if info["context"] == "append" else ()), *map(dict, messages)]
        return messages

    async def _in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        future = asyncio.get_running_loop().run_in_executor(_THREADS, call, *arguments)
        try:
            return await asyncio.wait_for(future, self.deadline_seconds)
        except (TimeoutError, asyncio.CancelledError) as error:
            name = self._made[1].unwrapped.env_id if self._made else self.env_id or "Session"  # type: ignore[attr-defined]
            self._made = None  # its thread may be at it still: nobody else may touch it
            if isinstance(error, asyncio.CancelledError):
                raise
            raise EnvFault(f"{name}: no answer within {self.deadline_seconds:g} s") from None


def spoken(text: str | int, calls: Calls) -> str | int:
    """Return a text and native calls beside it in the canonical form that environments read."""
    if not calls:
        return text
    read = [read_native_call(f"call_{number}", *call) for number, call in enumerate(calls)]
    texts = [str(text) if text else "", *(call for call in read if isinstance(call, str))]
    native = tuple(call for call in read if isinstance(call, ToolCall))
    return ChatReply("\n".join(filter(None, texts)), native).canonical
