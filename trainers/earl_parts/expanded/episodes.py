"""An episode with expanded actions takes decisions and gives environment steps and tokens.

A run of language is stepped as one text when it ends, before a routing action or `end`: in between nothing changes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.messages import Message
from agent_envs.core.env import core_of, shown_messages, wrapper_usage
from agent_envs.core.snapshot import Snapshot, snapshot
from agent_envs.core.trajectory import Header, Trajectory, Turn
from agent_envs.envs.expa import ExpandedActionEnv
from agent_envs.rollout.episode_runner import EpisodeResult, Planned, record_turn, turn_seed
from agent_envs.rollout.policy import Reply
from trainers.contracts import TokenSequence
from trainers.earl_parts.expanded.sequences import END, ExpandedChat, ExpandedTokens


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of language between expanded actions; it may be empty.

    Attributes:
        start: index of its first token in the sequence's ids.
        stop: index behind its last token, where the decision for a routing action or `end` stands; the end of the sequence
            where the budget was spent.
        snapshot: the environment at `start`; none of the tokens is stepped there yet.
    """

    start: int
    stop: int
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Start:
    """Where an episode begins that does not begin at a reset.

    Attributes:
        sequence: all tokens so far, with what the last action appended.
        env: stepped by all of them; fork it with a `branch`, which also keys what is sampled. The player goes on in it.
        turns: recorded so far, with their tokens.
        prompt: as it was shown; () for the environment's own.
    """

    sequence: TokenSequence
    env: gym.Env[Any, Any]
    turns: tuple[Turn, ...]
    prompt: tuple[Message, ...] = ()


class WalkingEpisode:
    """A row of the lock-step, over an environment: see `trainers.earl_parts.expanded.rollout.Walker`.

    Attributes:
        tokens: all that the model reads, and what was decided.
        runs: the stretches of language so far.
        decisions: drawn so far.
        edited: texts that the environment recorded otherwise than they were sampled.
    """

    def __init__(self, words: ExpandedChat, env: gym.Env[Any, Any], item: Planned) -> None:
        """Take what is planned and the environment that plays it; `begin` comes next."""
        self.tokens = ExpandedTokens((), 0)
        self.legal: tuple[int, ...] = ()
        self.runs: list[Run] = []
        self.seed = self.decisions = self.edited = 0
        self.over = False
        self._words, self._env, self._item = words, env, item
        self._core: ExpandedActionEnv = core_of(env)  # type: ignore[assignment]
        self._turns: list[Turn] = []
        self._prompt: tuple[Message, ...] = ()
        self._told: list[tuple[float, float]] = []  # logprobs and entropies of the run that goes on
        self._run: tuple[int, Snapshot] | None = None  # its start
        self._success, self._fault = False, ""

    @property
    def ids(self) -> list[int]:
        """All tokens so far."""
        return self.tokens.ids

    @property
    def limit(self) -> int:
        """How many tokens there may be."""
        return self.tokens.limit

    def begin(self, start: Start | None, room: Callable[[int], int]) -> None:
        """Stand at the first decision; `room` says how many tokens may follow a prompt of so many."""
        item = self._item
        try:
            if start is None:
                options = {"task": item.task, "split": item.split, "episode_key": item.key}
                _, info = self._env.reset(seed=item.seed, options=options)
                if info["context"] != "append" or info["prefill"]:
                    raise UsageError(f"{self._core.env_id}: ExpandedPlayer takes no wrapper that replaces or prefills")
            self._prompt = (start.prompt or self._core.episode.prompt) if start else shown_messages(self._env, info)
            prompt = self._words.opened(self._prompt)
            limit = len(prompt) + room(len(prompt))
            self.seed = turn_seed(item.key, 0)
            self.tokens = ExpandedTokens.after(start.sequence, limit) if start else ExpandedTokens(prompt, limit)
            if start is not None:
                self.seed = turn_seed(self._core.episode.header.origin, len(start.turns))
                self._turns = list(start.turns)
                self.over, self._success = self._core.episode.over, self._core.episode.success
            self._go_on()
        except EnvFault as fault:
            self._fault, self.over = fault.cause, True

    def take(self, target: int, logprob: float, entropy: float) -> None:
        """Go on by a decision."""
        self.decisions += 1
        end, first = self._words.rows[END].token_id, self._words.vocabulary
        try:
            if target < first and target != end:
                self.tokens.decided(target, self.legal, len(self._turns) + 1, (target,), logprob=logprob)
                self._told.append((logprob, entropy))
            else:
                self._end_run()
                number = END if target == end else target - first + 1
                self._act(number, Reply(number, (target,), (logprob,), (entropy,)))
            if self.tokens.full:
                self._spend()
        except EnvFault as fault:
            self._fault, self.over = fault.cause, True

    def result(self, seconds: float) -> EpisodeResult:
        """Return the episode as `run_many` does."""
        item, core = self._item, self._core
        if self._fault:
            head = Header(core.env_id, core.spec_digest, str(item.task), item.split, "", item.seed, item.key)
            return EpisodeResult(Trajectory(head, (), ()), "fault", self._fault, seconds=seconds)
        trajectory = Trajectory(core.episode.header, self._prompt, tuple(self._turns), success=self._success)
        status = "terminated" if self._turns[-1].terminated else "truncated"
        usage = {"input": len(self._words.opened(self._prompt)), "output": self.decisions, **wrapper_usage(self._env)}
        return EpisodeResult(trajectory, status, usage=usage, seconds=seconds)

    def _go_on(self) -> None:
        """Stand at the next decision, if there is one."""
        if self.over:
            return
        self.legal = self._core.legal_actions()
        if END in self.legal:
            self._run = len(self.ids), snapshot(self._env)
        if self.tokens.full:
            self._spend()

    def _act(self, number: int, reply: Reply) -> None:
        """Take an action, unless the text before it was the last that the environment took."""
        if self.over:
            return
        legal, row = self.legal, self._words.rows[number]
        turn = self._step(reply)
        appended = self._words.shown(turn.observation) or row.description  # `end` appends nothing and is a token itself
        self.tokens.decided(row.token_id, legal, turn.index, appended, logprob=reply.logprobs[0])
        self._go_on()

    def _end_run(self) -> None:
        """Step what was written since the last action, as one text."""
        if self._run is None:
            return
        start, moment = self._run
        self.runs.append(Run(start, len(self.ids), moment))
        self._run = None
        if self._told:
            logprobs, entropies = zip(*self._told, strict=True)
            self._told = []
            ids = tuple(self.ids[start:])
            text = self._words.chat.decode(ids)
            turn = self._step(Reply(text, ids, logprobs, entropies))
            self.edited += turn.action != text

    def _spend(self) -> None:
        """The budget is spent: end, wherever that is legal; elsewhere until the environment ends it."""
        self._end_run()
        while not self.over:
            self._step(Reply(END))

    def _step(self, reply: Reply) -> Turn:
        step = self._env.step(reply.action)
        turn = record_turn(self._env, step, reply)
        self._turns.append(turn)
        self.over = turn.terminated or turn.truncated
        self._success = bool(step[4].get("success", False))
        return turn
