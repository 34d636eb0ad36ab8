"""Tasks, turns, trajectories and trees of them are what rewards read, what is stored and what trainers learn from.

A tree stores each turn once. Its root is the reset observation of one (environment, task, seed); a node is a turn; a
trajectory is a path from the root to a leaf. Turns carry the id of their origin (episode key and branch), so forks share
the turns before the fork and nothing else: nodes merge by id, never by equal text.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, groupby
from operator import is_
from typing import Any, Protocol

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import Message, ToolResult
from agent_envs.base.protocol import Malformed, Parsed
from agent_envs.base.serialization import decode_state, digest, encode_state, lean_state, state_type

SCHEMA = "agent-envs/trajectory@1"
LEAN_SCHEMA = "agent-envs/trajectory@2"
MOST_CHARACTERS = 16_000_000  # characters of an episode with references: a small file fills no page
# What became of a model's turn. `cut`: a limit on its tokens cut the reply, `refused`: the model, or a filter, would not reply,
# `full`: the context was full and no reply came. The last two end the episode.
OUTCOMES = ("acted", "cut", "refused", "full")
MOST_EQUAL = 20  # turns of a chat model in a row, all equal and without an action, that end its episode
CONTEXT_FULL = "context_full"  # begins the finish reason of a turn that was `full`; "PROMPT/CONTEXT" in tokens follows
LONG = 40  # characters from which on a text is stored once and referred to


@state_type
@dataclass(frozen=True)
class Task:
    """One problem. `gold` and `hidden` never reach an observation or info before the end of the episode.

    Attributes:
        id: unique within a source's split.
        split: train, dev or test.
        question: what the policy is asked.
        gold: accepted answers.
        cluster: tasks of one cluster are not independent (one world, one document); statistics use it.
        data: public content of the family (immutable, see `serialization.encode_state`).
        hidden: the secret or scenario: dynamics, solvers and simulated users read it, and nothing shows it to the policy.
    """

    id: str
    split: str
    question: str
    gold: tuple[str, ...] = field(default=(), repr=False)
    cluster: str = ""
    data: Any = ()
    hidden: Any = field(default=(), repr=False)

    @cached_property
    def digest(self) -> str:
        """sha256 of the task's content, gold and scenario included; cached."""
        return digest(encode_state(replace(self)))


class TaskSource(Protocol):
    """A family's tasks with random access."""

    @property
    def name(self) -> str:
        """The source's name."""
        ...

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits, the default of a reset first."""
        ...

    @property
    def digest(self) -> str:
        """What outside data the tasks rest on; "" for generated tasks."""
        ...

    def size(self, split: str) -> int:
        """Return the number of tasks that a reset without `task` draws from; a generator accepts larger indices."""
        ...

    def get(self, split: str, key: int | str) -> Task:
        """Return the task of an index or id; raises KeyError where there is none."""
        ...


@state_type
@dataclass(frozen=True, slots=True, weakref_slot=True)  # its text is kept while it lives, see `Snapshot.to_bytes`
class Turn:
    """One action of the policy and what came back. The record of truth for rewards.

    Attributes:
        index: from 1.
        origin: episode key and branch under which the turn was taken; with `index` it names the tree node.
        action: the text as parsed (prefill included), or the id of an expanded action.
        parsed: the typed action; None for an expanded action.
        observation: messages that the environment showed after it.
        results: typed tool results, in order.
        reward, terms: the reward of this step and its named terms.
        events: parse and tool errors, in words.
        context: `append`: the observation grows the conversation; `replace`: it is the whole context from here on.
        token_ids, logprobs, entropies, sampled: of the turn, where an engine gave them; `sampled` marks the policy's.
        finish_reason: why the policy's reply ended, in the words of its service or engine; "" where it does not say.
        outcome: one of `OUTCOMES`.
        opaque: what a chat model's service wants back with this turn, as JSON; only the policy's own next requests hold it.
    """

    index: int
    origin: str
    action: str | int
    parsed: Parsed | None
    observation: tuple[Message, ...]
    results: tuple[ToolResult, ...] = ()
    reward: float = 0.0
    terms: tuple[tuple[str, float], ...] = ()
    terminated: bool = False
    truncated: bool = False
    events: tuple[str, ...] = ()
    context: str = "append"
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    entropies: tuple[float, ...] = ()
    sampled: tuple[bool, ...] = ()
    finish_reason: str = ""
    outcome: str = "acted"
    opaque: str = ""

    @property
    def node(self) -> str:
        """The id of this turn's tree node."""
        return f"{self.origin}:{self.index}"


@state_type
@dataclass(frozen=True, slots=True, weakref_slot=True)
class Header:
    """The identity of an episode: environment, task, seed, episode key and branch, with digests."""

    env_id: str
    spec_digest: str
    task_id: str
    split: str
    task_digest: str
    seed: int
    episode_key: str
    branch: str = ""

    @property
    def origin(self) -> str:
        """Episode key and branch, which name the turns taken under this header."""
        return f"{self.episode_key}/{self.branch}"


@state_type
@dataclass(frozen=True, slots=True)
class Trajectory:
    """A path: header, the messages of the reset, and the turns. `task` is there while the episode lives, not in files."""

    header: Header
    prompt: tuple[Message, ...]
    turns: tuple[Turn, ...]
    task: Task | None = field(default=None, repr=False)
    success: bool = False

    @property
    def total_reward(self) -> float:
        """The undiscounted sum of rewards, rounded once: the same on every version of Python."""
        return math.fsum(turn.reward for turn in self.turns)

    @property
    def last(self) -> Turn:
        """The newest turn."""
        return self.turns[-1]

    def to_json(self) -> dict[str, Any]:
        """Return the row that is stored: everything but the task's content."""
        return {"schema": SCHEMA, **encode_state(replace(self, task=None))}

    def to_lean_json(self) -> dict[str, Any]:
        """Return the row of a journal: `to_json` without defaults, with the long texts of prompts and results in a table."""
        texts = list(_message_texts(self))
        long = list(dict.fromkeys(text for text in texts if len(text) >= LONG))
        if sum(map(len, texts)) > MOST_CHARACTERS:
            long = []
        row = lean_state(replace(self, task=None), {text: place for place, text in enumerate(long)})
        return {"schema": LEAN_SCHEMA, "texts": long, **row}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> "Trajectory":
        """Read a row of `to_json` or `to_lean_json`.

        Raises:
            UsageError: the schema is another one, or the row is no trajectory.
        """
        schema, texts = row.get("schema"), row.get("texts", [])
        if schema not in (SCHEMA, LEAN_SCHEMA):
            raise UsageError(f"trajectory row has schema {schema!r}; this version reads {SCHEMA} and {LEAN_SCHEMA}")
        try:
            value = decode_state({key: item for key, item in row.items() if key not in ("schema", "texts")}, texts)
        except ValueError as error:
            raise UsageError(f"trajectory row cannot be read: {error}") from error
        if not isinstance(value, cls):
            raise UsageError(f"trajectory row holds a {type(value).__name__}")
        if value.task is not None:
            raise UsageError("trajectory row holds a task; rows never do, the task is its source's to give")
        if texts and sum(map(len, _message_texts(value))) > MOST_CHARACTERS:
            raise UsageError(f"trajectory row's references come to more than {MOST_CHARACTERS:,} characters")
        return value


def equal_malformed(turns: Sequence[Turn]) -> int:
    """Count the last turns in a row that are all equal and hold no action, up to `MOST_EQUAL`."""
    count = 0
    for turn in reversed(turns[-MOST_EQUAL:]):
        if not isinstance(turn.parsed, Malformed) or turn.action != turns[-1].action:
            break
        count += 1
    return count


def ends_by_agent(turns: Sequence[Turn]) -> bool:
    """Return whether the last turn ends an episode by a limit of the agent's own, which counts 0 whatever it has earned."""
    return turns[-1].outcome in ("refused", "full") or equal_malformed(turns) == MOST_EQUAL


def _message_texts(trajectory: Trajectory) -> Iterator[str]:
    """Yield the text of each message and tool result of a trajectory, from the prompt on."""
    after = (chain[Message | ToolResult](turn.observation, turn.results) for turn in trajectory.turns)
    return (part.content for part in chain(trajectory.prompt, *after))


@dataclass(frozen=True, slots=True)
class Node:
    """A turn in its tree; `parent` is "" below the root."""

    turn: Turn
    parent: str


class TrajectoryTree:
    """All trajectories of one (environment, task, seed), each turn stored once.

    Feedback before the first turn is each rollout's own: the root is the reset's messages without it, and a path has it again.
    """

    def __init__(self, header: Header, prompt: tuple[Message, ...]) -> None:
        """Start a tree without branches from a header and a prompt."""
        self.root = replace(header, episode_key="", branch="")
        self.prompt = _shared_prompt(prompt)
        self.nodes: dict[str, Node] = {}
        self._leaves: dict[str, tuple[Header, tuple[Message, ...], bool]] = {}
        self._newest: tuple[Turn, ...] = ()  # the path that was added last, all of which is held

    def add(self, trajectory: Trajectory) -> None:
        """Merge a trajectory, shared turns held once, its end a leaf; UsageError if its root or a node's turn is another.

        Raises:
            UsageError: it starts elsewhere, or reuses a node id for another turn (fork with `branch=` to avoid that).
        """
        if (
            replace(trajectory.header, episode_key="", branch="") != self.root
            or _shared_prompt(trajectory.prompt) != self.prompt
        ):
            raise UsageError(f"trajectory of {trajectory.header.task_id} does not start at this tree's root")
        # A fork has its trunk's own turns: they are held as they are, and looking at each again made depth cost.
        new, shared = dict[str, Node](), list(map(is_, self._newest, trajectory.turns))
        start = shared.index(False) if False in shared else len(shared)
        parent = trajectory.turns[start - 1].node if start else ""
        for turn in trajectory.turns[start:]:
            node = Node(turn, parent)
            earlier = self.nodes.get(turn.node, node)
            if earlier != node:
                names = [name for name in Turn.__match_args__ if getattr(earlier.turn, name) != getattr(turn, name)]
                raise UsageError(
                    f"node {turn.node} already holds a turn with another {', '.join(names) or 'parent'}: give each start "
                    "an episode_key of its own (reset option), each fork a branch, and record a shared turn once"
                )
            new[turn.node] = node
            parent = turn.node
        self.nodes.update(new)
        self._newest = trajectory.turns
        self._leaves[parent] = (trajectory.header, trajectory.prompt, trajectory.success)

    def children(self, node: str = "") -> list[str]:
        """Return the ids of the turns after a node, in the order of their adding."""
        return [name for name, item in self.nodes.items() if item.parent == node]

    def paths(self) -> Iterator[Trajectory]:
        """Yield each leaf's trajectory, without its task, in the order of adding; of one end, the one added last."""
        for leaf, (header, prompt, success) in self._leaves.items():
            turns, name = list[Turn](), leaf
            while name:
                turns.append(self.nodes[name].turn)
                name = self.nodes[name].parent
            yield Trajectory(header, prompt, tuple(reversed(turns)), success=success)


def _shared_prompt(prompt: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the part of a prompt that all rollouts of a task and seed share: all but feedback."""
    return tuple(message for message in prompt if message.author != "feedback")


def segments(trajectory: Trajectory) -> Iterator[tuple[tuple[Message, ...], tuple[Turn, ...]]]:
    """Yield (context at the start, turns taken in it): a new segment starts where an observation replaces the context."""
    start, turns = trajectory.prompt, list[Turn]()
    for turn in trajectory.turns:
        turns.append(turn)
        if turn.context == "replace":
            yield start, tuple(turns)
            start, turns = turn.observation, []
    if turns:
        yield start, tuple(turns)


def stretches(turns: tuple[Turn, ...]) -> list[tuple[Turn, ...]]:
    """Return turns as they are shown together: one by one, but with expanded actions up to a reward or the end.

    With expanded actions a turn may be one button, and what it appends belongs to one growing text.
    """
    if not any(isinstance(turn.action, int) for turn in turns):
        return [(turn,) for turn in turns]
    groups, together = [], list[Turn]()
    for turn in turns:
        together.append(turn)
        if any((turn.reward, *dict(turn.terms).values())) or turn is turns[-1]:
            groups.append(tuple(together))
            together = []
    return groups


def transcript(prompt: tuple[Message, ...], turns: tuple[Turn, ...]) -> str:
    """Return an episode as plain text, one paragraph a message, authors named.

    With expanded actions a paragraph is a stretch of one growing text, and what actions appended stands between ⟪ and ⟫;
    where somebody wrote these two characters, they are shown by their names, so that nothing looks like an action but actions.
    """
    parts = [f"[{message.author}] {message.content}" for message in prompt]
    expanded = any(isinstance(turn.action, int) for turn in turns)
    for together in stretches(turns):
        last = together[-1]
        if expanded:
            span = f"turns {together[0].index} to {last.index}" if len(together) > 1 else f"turn {last.index}"
            parts.append(f"[policy, {span}] {_as_one_text(together)}")
        else:
            parts.append(f"[policy, turn {last.index}] {last.action}")
            parts += [f"[{message.author}] {message.content.strip()}" for message in last.observation]
        parts.append(f"(reward {last.reward:g})")
    return "\n\n".join(parts)


def _as_one_text(turns: tuple[Turn, ...]) -> str:
    """Join actions and what the environment appended into one text; the environment's runs stand in ⟪⟫."""
    pieces = list[tuple[bool, str]]()
    for turn in turns:
        appended = "".join(message.content for message in turn.observation)
        if isinstance(turn.action, str):
            pieces.append((False, turn.action))
        pieces.append((True, appended if appended or isinstance(turn.action, str) else f"[action {turn.action}]"))
    text = ""
    for marked, group in groupby((piece for piece in pieces if piece[1]), key=lambda piece: piece[0]):
        run = "".join(piece for _, piece in group).replace("⟪", "\\u27ea").replace("⟫", "\\u27eb")
        text += f"⟪{run}⟫" if marked else run
    return text
