"""The wire carries JSON in the shape of OpenEnv's messages: actions in, observations, states and refusals out."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import OneOf

from agent_envs.base.arguments import display_value
from agent_envs.base.errors import UsageError
from agent_envs.base.version import VERSION
from agent_envs.core.env import TurnEnv, core_of
from agent_envs.rollout.episode_pool import EpisodePool, PoolTurn

Data = dict[str, Any]
MAX_MESSAGE = 2**20  # bytes of a message or a body
MAX_NAME = 256  # characters of a name that a client chooses
MAX_WORDS = 2_000  # characters of a refusal
STATUSES = {
    "INVALID_JSON": 400, "UNKNOWN_TYPE": 404, "VALIDATION_ERROR": 422, "SESSION_ERROR": 404, "FORBIDDEN": 403,
    "CONFLICT": 409, "BUSY": 409, "CAPACITY_REACHED": 503, "EXECUTION_ERROR": 503, "DEADLINE": 504, "INTERNAL": 500,
}  # fmt: skip


class WireError(Exception):
    """An answer that is none: the words that a client gets in its place.

    Attributes:
        code: one of `STATUSES`; of OpenEnv's own where it has one.
        retryable: whether the same message may succeed later.
    """

    def __init__(self, code: str, words: str, retryable: bool = False) -> None:
        super().__init__(words)
        self.code, self.retryable = code, retryable

    def data(self) -> Data:
        """Return the data of the message that is sent."""
        return {"message": str(self)[:MAX_WORDS], "code": self.code, "retryable": self.retryable}


@dataclass(frozen=True)
class Served:
    """One environment that is served: its pool, and one of its kind that is never stepped, to be asked about."""

    name: str
    pool: EpisodePool
    env: gym.Env[Any, Any]
    core: TurnEnv = field(init=False)

    def __post_init__(self) -> None:
        """Find the core."""
        object.__setattr__(self, "core", core_of(self.env))

    @property
    def takes_ids(self) -> bool:
        """Whether an action may be the id of an expanded action."""
        return isinstance(self.core.action_space, OneOf)

    def action(self, value: Any) -> str | int:
        """Return the action in a message: a text, or an object with `text`. What else a model wrote as JSON is its text.

        Raises:
            WireError: there is none.
        """
        if isinstance(value, Mapping) and "text" in value:
            value = value["text"]
        if isinstance(value, str) or (self.takes_ids and type(value) is int):
            return value
        if value is None or value == {}:
            raise WireError("VALIDATION_ERROR", 'an action is a text: {"text": "..."}')
        return json.dumps(value)  # clients that parse a model's reply send what it wrote as a value

    def about(self) -> Data:
        """Return all that a client needs to be an environment of this kind; no task."""
        core = self.core
        splits = {split: core.source.size(split) for split in core.source.splits}
        actions = [asdict(action) for action in getattr(core, "expanded_actions", ())]
        return {
            "name": self.name, "env_id": core.env_id, "version": VERSION, "spec_digest": core.spec_digest,
            "source": core.source.name, "splits": splits, "max_turns": core.max_turns, "context": core.context,
            "stop": list(core.stop), "answer_tags": list(core.answer_tags), "tools": [dict(tool) for tool in core.tools],
            "reward": core.reward_spec.describe(), "expanded_actions": actions,
        }  # fmt: skip

    def schema(self) -> Data:
        """Return the JSON schemas of an action, an observation and a state, as OpenEnv's clients read them."""
        metadata = {"type": "object", "description": 'Optional: {"session": ..., "index": ...}'}
        text: Data = {"type": "string", "description": "The whole text of the turn"}
        if self.takes_ids:
            text = {"anyOf": [text, {"type": "integer", "description": "An expanded action"}]}
        rows = {"type": "array", "items": {"type": "object"}}
        flag = {"type": "boolean"}
        fields = {"messages": rows, "info": {"type": "object"}, "end": {"type": "string"}, "success": flag}
        state = {"episode_id": {"type": "string"}, "step_count": {"type": "integer"}}
        return {
            "action": _object("Turn", {"text": text, "metadata": metadata}, "text"),
            "observation": _object("Seen", {**fields, "metadata": {"type": "object"}}, *fields),
            "state": _object("State", state),
        }


def _object(title: str, properties: Data, *required: str) -> Data:
    """Return the schema of an object."""
    return {"title": title, "type": "object", "properties": properties, "required": list(required)}


def observation(turn: PoolTurn, session: str) -> Data:
    """Return a turn as OpenEnv's clients read it; the mask of expanded actions becomes a list of legal ids.

    Args:
        turn: without a fault.
        session: whose turn it is, "" for none; the `index` beside it is that of its next turn.
    """
    info = dict(turn.info or {})
    messages, success, last = info.pop("messages"), bool(info.get("success", False)), "reward_terms" in info
    if "action_mask" in info:
        info["legal"] = info.pop("action_mask").nonzero()[0].tolist()
    end = "terminated" if turn.terminated else "truncated" if turn.truncated else ""
    metadata = {"session": session, "index": info["turn"]} if session else {}
    return {
        "observation": {"messages": messages, "info": info, "end": end, "success": success, "metadata": {}},
        "reward": turn.reward if last else None, "done": bool(end), "metadata": metadata,
    }  # fmt: skip


def text_field(data: Data, name: str, default: str = "") -> str:
    """Return a text of a message, of at most 256 characters; WireError for anything else."""
    value = data.get(name)
    if value is None:
        return default
    if not isinstance(value, str) or len(value) > MAX_NAME:
        raise WireError(
            "VALIDATION_ERROR", f"{name}={display_value(value)}; give a text of at most {MAX_NAME} characters"
        )
    return value


def number_field(data: Data, name: str, default: int, low: int, high: int) -> int:
    """Return a whole number of a message; WireError for anything else."""
    value = data.get(name, default)
    if type(value) is not int or not low <= value <= high:
        raise WireError("VALIDATION_ERROR", f"{name}={display_value(value)}; give a whole number from {low} to {high}")
    return value


def list_field(data: Data, name: str, most: int) -> list[Data]:
    """Return a list of objects of a message; WireError for anything else, none or too many."""
    value = data.get(name)
    if not isinstance(value, list) or not 0 < len(value) <= most or not all(isinstance(row, dict) for row in value):
        raise WireError("VALIDATION_ERROR", f"{name}: give a list of 1 to {most} objects")
    return value


def reset_row(data: Data) -> Data:
    """Return the row of an episode to begin from a message: `task` (or `index`), `split`, `seed` and `episode_key`."""
    task = data.get("task", data.get("index"))
    if not (task is None or type(task) is int or isinstance(task, str)):
        raise WireError("VALIDATION_ERROR", f"task={display_value(task)}; give an index or an id")
    names = {"split": text_field(data, "split") or None, "episode_key": text_field(data, "episode_key") or None}
    return {"task": task, "seed": data.get("seed"), **names}


def json_text(value: Any) -> str:
    """Return an answer as JSON in ASCII: texts may hold lone surrogates, and an environment's info what JSON has not."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError):
        return json.dumps(_plain(value), allow_nan=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    """Return a value in JSON's terms: numpy's and sets as lists, a number that is none as null, the rest by its type's name."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float) else f"<{type(value).__name__}>"


def refusal_of(error: Exception) -> WireError:
    """Return the refusal of an error: a UsageError in its own words, of others nothing but that there was one."""
    if isinstance(error, WireError):
        return error
    if isinstance(error, UsageError):
        return WireError("VALIDATION_ERROR", str(error))
    return WireError("INTERNAL", "the server failed; its log says why")
