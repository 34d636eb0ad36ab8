"""Episodes for a trainer: a policy over an engine, groups of equal starts through `run_many`, onto trajectory trees.

Tokens go in and tokens come out: what was sampled is never encoded again. The record of truth is the tree; from it
`ChatTokenizer.sequences` rebuilds the very tokens that the engine saw, and `Group.drift` counts where it could not.
"""

import itertools
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import gymnasium as gym

from agent_envs.errors import AgentEnvsError
from agent_envs.policies import Reply, Request
from agent_envs.registry import full_id, spec_json
from agent_envs.rollout import EpisodeResult
from agent_envs.run_journal import Planned
from agent_envs.runner import run_many
from agent_envs.trajectory import Trajectory, TrajectoryTree
from trainers.contracts import Engine, Prefix, Sampling, TokenSequence
from trainers.tokens import ChatTokenizer, Conversation
from trainers.tokens import drift as drifted

NOTHING = TokenSequence((), (), (), ())


class EnginePolicy:
    """An `agent_envs` policy that samples from an engine and keeps every conversation as tokens.

    Attributes:
        sampled_tokens: drawn so far, over all episodes.
        edited: turns whose text the environment recorded otherwise than it was sampled (lone surrogates, the length cap).
    """

    patient = True
    can_prefill = True
    text_only = True

    def __init__(
        self,
        engine: Engine,
        chat: ChatTokenizer,
        sampling: Sampling,
        *,
        name: str = "engine",
        max_new_tokens: int = 512,
        max_context: int = 4096,
        batch: int = 64,
        within: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        """Take the engine, the tokenizer of conversations, how tokens are drawn, and the limits of a turn and a context.

        `within` is entered around every call of the engine: mixed precision, where the engine shares a trainer's model.
        """
        self._within = within
        self.name, self.batch = name, batch
        self.sampled_tokens = self.edited = 0
        self._engine, self._chat, self._sampling = engine, chat, sampling
        self._max_new_tokens, self._max_context = max_new_tokens, max_context
        self._talks: dict[str, _Talk] = {}

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return the next turn of each episode. Rows are sorted, so that a batch is the same whoever asked first."""
        order = sorted(range(len(requests)), key=lambda place: (requests[place].episode_key, requests[place].turn))
        turns = [self._begin(requests[place]) for place in order]
        asked = [turn for turn in turns if turn.prefix.max_new_tokens > 0]
        with self._within():
            found = self._engine.generate([turn.prefix for turn in asked], self._sampling) if asked else []
        for turn, generated in zip(asked, found, strict=True):
            turn.ids, turn.logprobs, turn.entropies = generated.ids, generated.logprobs, generated.entropies
        replies: dict[int, Reply] = {place: self._end(turn) for place, turn in zip(order, turns, strict=True)}
        return [replies[place] for place in range(len(requests))]

    def sequences(self, episode_key: str) -> list[TokenSequence]:
        """Return the tokens of an episode as they were sampled: one sequence, or more where contexts were replaced."""
        talk = self._talks[episode_key]
        return [conversation.sequence() for conversation in talk.conversations]

    def rebuilt(self, trajectory: Trajectory) -> list[TokenSequence]:
        """Return the same tokens made from the record alone, up to the turn for which the context had no room."""
        spoken = tuple(itertools.takewhile(lambda turn: turn.token_ids, trajectory.turns))
        if not spoken:
            return []
        return self._chat.sequences(replace(trajectory, turns=spoken), self._talks[trajectory.header.episode_key].tools)

    def forget(self) -> None:
        """Drop all conversations, and the engine's caches."""
        self._talks.clear()
        self._engine.forget()

    def _begin(self, request: Request) -> "_Turn":
        talk = self._talks.get(request.episode_key)
        if talk is None or request.turn == 1:
            talk = self._talks[request.episode_key] = _Talk(tuple(request.tools))
            talk.conversations.append(self._chat.open(request.messages, talk.tools))
        elif request.context == "replace":
            talk.conversations.append(self._chat.open(request.messages, talk.tools))
        else:
            said, *shown = request.messages[talk.seen :]
            self.edited += said["content"] != talk.said
            talk.conversations[-1].observe(shown)
        talk.seen = len(request.messages)
        conversation = talk.conversations[-1]
        given = conversation.prefill(request.prefill) if request.prefill else ()
        room = self._max_context - len(conversation.ids)
        budget = max(0, min(self._max_new_tokens, room))
        session = f"{request.episode_key}#{len(talk.conversations)}"
        prefix = Prefix(tuple(conversation.ids), budget, tuple(request.stop), request.seed, session)
        return _Turn(talk, prefix, given, request.prefill, request.turn)

    def _end(self, turn: "_Turn") -> Reply:
        turn.talk.conversations[-1].sampled(turn.ids, turn.logprobs, turn.number)
        text = turn.talk.said = turn.prefill + self._chat.decode(turn.ids)
        self.sampled_tokens += len(turn.ids)
        zeros = (0.0,) * len(turn.given)
        return Reply(
            text,
            token_ids=(*turn.given, *turn.ids),
            logprobs=(*zeros, *turn.logprobs),
            entropies=(*zeros, *turn.entropies),
            usage={"input": len(turn.prefix.ids), "output": len(turn.ids)},
            sampled=(False,) * len(turn.given) + (True,) * len(turn.ids) if turn.given else (),
        )


@dataclass
class _Talk:
    """An episode's conversations: a new one starts where an observation replaces the context."""

    tools: tuple[dict[str, object], ...]
    conversations: list[Conversation] = field(default_factory=list)
    seen: int = 0
    said: str = ""


@dataclass
class _Turn:
    """A turn between its request and its reply."""

    talk: _Talk
    prefix: Prefix
    given: tuple[int, ...]
    prefill: str
    number: int
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    entropies: tuple[float, ...] = ()


@dataclass(frozen=True)
class Group:
    """Episodes that started alike: one tree, its trajectories in the order of their rollout index.

    Attributes:
        tree: all turns.
        results: of the episodes that were played to their end; faults are left out.
        sequences: the tokens of each result, without what follows the last sampled token.
        drift: tokens that the record could not rebuild exactly; 0, or there is a bug.
        faults: episodes that an outside fault ended: they have no reward.
    """

    tree: TrajectoryTree
    results: tuple[EpisodeResult, ...]
    sequences: tuple[tuple[TokenSequence, ...], ...]
    drift: int
    faults: int


def environment_spec(name: str, arguments: dict[str, object]) -> str:
    """Return the spec of an environment as JSON, as `run_many` takes it.

    Raises:
        UsageError: an argument cannot travel.
    """
    return spec_json(gym.make(full_id(name), **arguments))


def tasks_of_step(step: int, count: int, size: int, seed: int) -> list[int]:
    """Return the task indices of a step (from 0): every task once before any comes again, in an order that the seed sets."""
    places = range(step * count, (step + 1) * count)
    return [_order(size, seed, place // size)[place % size] for place in places]


@lru_cache(maxsize=2)
def _order(size: int, seed: int, epoch: int) -> list[int]:
    return random.Random(f"tasks:{seed}:{epoch}").sample(range(size), size)


def plan_groups(spec: str, split: str, tasks: Sequence[int], group_size: int, key: str) -> list[Planned]:
    """Return the plan of groups that start identically: same task, same environment seed, sampling keyed by rollout."""
    return [
        Planned(f"{key}/{place}.{task}/{rollout}", spec, task, split, seed=task, trial=rollout)
        for place, task in enumerate(tasks)
        for rollout in range(group_size)
    ]


def play_groups(plan: Sequence[Planned], policy: EnginePolicy) -> list[Group]:
    """Play a plan of groups and return them in its order; the policy has forgotten everything afterwards.

    Raises:
        AgentEnvsError: every episode ended in a fault: there is nothing to learn from.
    """
    results = {item.key: result for item, result in run_many(plan, policy, concurrency=policy.batch)}
    keys: dict[str, list[str]] = {}
    for item in plan:
        keys.setdefault(item.key.rpartition("/")[0], []).append(item.key)
    groups = [_group([results[key] for key in members], policy) for members in keys.values()]
    policy.forget()
    if not any(group.results for group in groups):
        raise AgentEnvsError(f"all {len(plan)} episodes ended in a fault, the first: {results[plan[0].key].fault}")
    return [group for group in groups if group.results]


def _group(results: Sequence[EpisodeResult], policy: EnginePolicy) -> Group:
    played = tuple(result for result in results if result.status in ("terminated", "truncated"))
    if not played:
        return Group(TrajectoryTree(results[0].trajectory.header, ()), (), (), 0, len(results))
    tree = TrajectoryTree(played[0].trajectory.header, played[0].trajectory.prompt)
    sequences, drift = [], 0
    for result in played:
        tree.add(result.trajectory)
        rebuilt = [trimmed(sequence) for sequence in policy.rebuilt(result.trajectory)]
        sampled = [trimmed(sequence) for sequence in policy.sequences(result.trajectory.header.episode_key)]
        drift += sum(drifted(*pair) for pair in itertools.zip_longest(sampled, rebuilt, fillvalue=NOTHING))
        sequences.append(tuple(sequence for sequence in sampled if any(sequence.trained)))
    return Group(tree, played, tuple(sequences), drift, len(results) - len(played))


def trimmed(sequence: TokenSequence) -> TokenSequence:
    """Return a sequence up to its last trained token: nothing after it can matter to a causal model."""
    length = max((place + 1 for place, kept in enumerate(sequence.trained) if kept), default=0)
    parts = (sequence.ids, sequence.trained, sequence.logprobs, sequence.turns)
    return TokenSequence(*(part[:length] for part in parts))
