"""The parts of a trainer exchange token sequences, sampling parameters, an engine's prefixes and its samples."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Protocol

from agent_envs.base.dialects import outside_thoughts


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """A conversation as the model saw it: one row of a batch. All tuples have one entry a token.

    Attributes:
        ids: token ids.
        trained: which tokens the policy sampled (or a demonstration wrote): the only ones that carry a gradient.
        logprobs: of trained tokens under the policy that sampled them; 0 elsewhere, and in demonstrations.
        turns: the index of the turn (from 1) that a trained token belongs to; 0 elsewhere.
        targets: what was chosen at each trained token, where that is not always the token itself: an expanded action has an
            id beyond the vocabulary, and the first token of its description stands in `ids`. Empty: `ids`.
        legal: the numbers of the expanded actions that were legal at each trained token, () elsewhere. Where 0 (`end`, the
            end-of-sequence token) is among them the vocabulary was open as well. Empty: there are no expanded actions.
    """

    ids: tuple[int, ...]
    trained: tuple[bool, ...]
    logprobs: tuple[float, ...]
    turns: tuple[int, ...]
    targets: tuple[int, ...] = ()
    legal: tuple[tuple[int, ...], ...] = ()

    def upto(self, length: int) -> "TokenSequence":
        """Return its first tokens."""
        return TokenSequence(*(getattr(self, column.name)[:length] for column in fields(self)))


def common_beginning(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Return the length of the longest common prefix of two lists of tokens, by bisection."""
    alike, bound = 0, min(len(one), len(other))
    if one[:bound] == other[:bound]:
        return bound
    while alike < bound:
        middle = (alike + bound + 1) // 2
        if one[alike:middle] == other[alike:middle]:
            alike = middle
        else:
            bound = middle - 1
    return alike


@dataclass(frozen=True, slots=True)
class Sampling:
    """The sampling parameters of an engine.

    Attributes:
        temperature: > 0; 0 takes the likeliest token (its logprob is then of temperature 1).
        top_k: draw among so many likeliest tokens; 0 for all.
        top_p: draw among the fewest tokens that hold this much probability.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0


@dataclass(frozen=True, slots=True)
class Prefix:
    """A context that an engine continues: one row of a batch.

    Attributes:
        ids: the whole context as tokens.
        max_new_tokens: how many tokens may follow.
        stop: generation ends with the token that completes one of these texts; the text stays.
        seed: of this row's samples; they do not depend on what else is in the batch (up to float rounding).
        session: names a conversation whose cache is kept for the next call, which goes on from what both begin with;
            "" keeps nothing.
        allowed_ids: the only tokens that may be drawn; None for all.
        turn_text: the turn's text so far, where a stop text inside an open thought (`<think>`) ends nothing; None: it does.
    """

    ids: tuple[int, ...]
    max_new_tokens: int
    stop: tuple[str, ...] = ()
    seed: int = 0
    session: str = ""
    allowed_ids: tuple[int, ...] | None = None
    turn_text: str | None = None

    def is_thinking(self, text: str) -> bool:
        """Whether a stop text at the end of what was generated, `text`, stands inside a thought, so that it ends nothing."""
        return self.turn_text is not None and outside_thoughts(self.turn_text + text)[1]


@dataclass(frozen=True, slots=True)
class Generated:
    """The continuation of a prefix: one entry a token in each tuple.

    Attributes:
        ids: new tokens, an end-of-turn token included where one was drawn.
        logprobs: under the distribution that was sampled from (temperature, top-k, top-p, allowed ids).
        entropies: of that distribution, in nats.
        finish: "eos", "stop" or "length".
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    entropies: tuple[float, ...]
    finish: str


class Engine(Protocol):
    """An inference engine: tokens in, tokens out. `batch` is how many rows it takes at a time."""

    batch: int

    def generate(self, prefixes: Sequence[Prefix], sampling: Sampling) -> list[Generated]:
        """Generate a continuation of each prefix."""
        ...

    def fork(self, session: str, new: str) -> None:
        """Share a session's cache with a new session."""
        ...

    def forget(self) -> None:
        """Drop all kept caches: after every change of weights, and between batches of episodes."""
        ...
