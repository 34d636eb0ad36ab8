"""Episodes with expanded actions become tokens: while they are played, from their record, and from demonstrations.

The model reads vocabulary tokens only. What an action appends, its description and what the environment answers, is encoded
once, as one text; the decision for the action stands at the first of these tokens, as a target beyond the vocabulary. An
episode takes decisions and gives environment steps: a run of language is stepped as one text when it ends, before a routing
action or `end`; in between nothing changes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.messages import Message
from agent_envs.base.protocol import Malformed
from agent_envs.core.env import core_of, shown_messages, wrapper_usage
from agent_envs.core.snapshot import Snapshot, snapshot
from agent_envs.core.trajectory import Header, Trajectory, Turn
from agent_envs.envs.expa import ExpandedActionEnv, VocabularyRow, expanded_vocabulary
from agent_envs.rollout.episode_runner import EpisodeResult, Planned, record_turn, turn_seed
from agent_envs.rollout.policy import Reply
from trainers.contracts import TokenSequence
from trainers.tokens import ChatTokenizer

END = 0
_CACHE_TEXTS = 4096
_NO_LIMIT = 2**62


class ExpandedTokens:
    """One growing row of tokens, and what was decided at each. The list is for reading.

    Attributes:
        ids: the tokens, which the model reads; never more than `limit`.
        limit: how many tokens there may be; what is appended beyond is cut off.
    """

    def __init__(self, ids: Sequence[int], limit: int) -> None:
        """Start with the tokens of a prompt, which are no decisions."""
        self.limit = limit
        self.ids: list[int] = []
        self._marks: list[tuple[Any, ...]] = []  # of each: trained, logprob, turn, target, legal actions
        self.append_context(ids)

    @classmethod
    def after(cls, sequence: TokenSequence, limit: int) -> "ExpandedTokens":
        """Start with the tokens and decisions of a sequence."""
        tokens = cls((), limit)
        targets, legal = sequence.targets or sequence.ids, sequence.legal or [()] * len(sequence.ids)
        tokens.ids = list(sequence.ids)
        tokens._marks = list(zip(sequence.trained, sequence.logprobs, sequence.turns, targets, legal, strict=True))
        return tokens

    @property
    def full(self) -> bool:
        """Whether there is no room left."""
        return len(self.ids) >= self.limit

    def append_context(self, ids: Sequence[int]) -> None:
        """Append tokens that are no decisions, as far as there is room."""
        ids = ids[: max(0, self.limit - len(self.ids))]
        self.ids += ids
        self._marks += [(False, 0.0, 0, number, ()) for number in ids]

    def append_decision(
        self, target: int, legal: tuple[int, ...], turn: int, appended: Sequence[int], *, logprob: float | None = 0.0
    ) -> None:
        """Append a decision: a token, or an action with the tokens of what it appended.

        Args:
            target: id of the token, or of the action.
            legal: numbers of the actions that were legal.
            turn: of the environment's step that it ended up in, from 1.
            appended: what stands for it in the model's input: the token itself, or what the action appended.
            logprob: None where it was forced on the policy and carries no gradient.
        """
        first, *rest = appended
        self.ids.append(first)
        self._marks.append((logprob is not None, logprob or 0.0, turn, target, legal))
        self.append_context(rest)

    def sequence(self) -> TokenSequence:
        """Return the tokens so far."""
        marks = zip(*self._marks, strict=True) if self._marks else [()] * 5
        return TokenSequence(tuple(self.ids), *marks)


class ExpandedChat:
    """A chat tokenizer, and the expanded actions of an environment in its terms.

    Attributes:
        chat: the tokenizer.
        rows: of all actions, `end` first.
        vocabulary: the first id beyond the vocabulary.
    """

    def __init__(self, chat: ChatTokenizer, rows: Sequence[VocabularyRow]) -> None:
        """Take the tokenizer and the rows, which `vocabulary_rows` made with it."""
        self.chat, self.rows = chat, tuple(rows)
        self.vocabulary = self.rows[1].token_id
        self._encoded = lru_cache(maxsize=_CACHE_TEXTS)(partial(_encode, chat))

    def check(self, env: gym.Env[Any, Any]) -> ExpandedActionEnv:
        """Return an environment's core if its actions are these or the first of these; UsageError for others or none.

        Raises:
            UsageError: it has others, or none.
        """
        core = core_of(env)
        if not isinstance(core, ExpandedActionEnv):
            raise UsageError(f"{core.env_id} has no expanded actions; EnginePolicy plays it")
        if (rows := vocabulary_rows(env, self.chat, self.vocabulary)) != self.rows[: len(rows)]:
            raise UsageError(f"{core.env_id}: its expanded actions are not those of the model's expanded head")
        return core

    def prompt_ids(self, prompt: Sequence[Message]) -> tuple[int, ...]:
        """Return a prompt as tokens, up to where the policy speaks."""
        return tuple(self.chat.open(prompt).ids)

    def observation_tokens(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Return the tokens that the environment appended, its text encoded as one."""
        return self._encoded("".join(message.content for message in messages))

    def sequence(self, env: gym.Env[Any, Any], trajectory: Trajectory, *, limit: int | None = None) -> TokenSequence:
        """Return an episode as tokens from its record, which is stepped again for what was legal.

        Turns with tokens keep them. Turns without are demonstrations: their texts are encoded as the policy should write
        them, their actions are targets, and all of that is trained; actions that the environment refused are not.

        Args:
            env: made as for the record; it is reset.
            trajectory: the record.
            limit: how many tokens follow the prompt at most; what the last action appends may be cut off so.
        """
        core, head = core_of(env), trajectory.header  # no wrapper is asked: what it showed is in the record
        options = {"task": head.task_id, "split": head.split, "episode_key": head.episode_key}
        core.reset(seed=None if head.seed < 0 else head.seed, options=options)
        assert isinstance(core, ExpandedActionEnv)
        prompt = self.prompt_ids(trajectory.prompt)
        tokens = ExpandedTokens(prompt, len(prompt) + limit if limit is not None else _NO_LIMIT)
        for turn in trajectory.turns:
            legal = core.legal_actions()
            core.step(turn.action)
            self._record(tokens, turn, legal)
        return tokens.sequence()

    def _record(self, tokens: ExpandedTokens, turn: Turn, legal: tuple[int, ...]) -> None:
        """Append a recorded turn: text token by token, an action as one decision; of a malformed one the observation."""
        if isinstance(turn.parsed, Malformed):
            tokens.append_context(self.observation_tokens(turn.observation))
            return
        logprobs: list[float | None] = list(turn.logprobs or [0.0] * len(turn.token_ids))
        if turn.sampled:
            logprobs = [logprob if mine else None for logprob, mine in zip(logprobs, turn.sampled, strict=True)]
        if isinstance(turn.action, str):
            ids = turn.token_ids or self._encoded(turn.action)
            for token, logprob in zip(ids, logprobs or [0.0] * len(ids), strict=True):
                tokens.append_decision(token, legal, turn.index, (token,), logprob=logprob)
            return
        row = self.rows[turn.action]
        # `end` appends nothing and is a token itself.
        appended = self.observation_tokens(turn.observation) or row.description
        tokens.append_decision(row.token_id, legal, turn.index, appended, logprob=(logprobs or [0.0])[0])


def vocabulary_rows(env: gym.Env[Any, Any], chat: ChatTokenizer, first_id: int) -> tuple[VocabularyRow, ...]:
    """Return the rows of an environment's expanded actions as a chat tokenizer writes them; `end` ends a turn of the chat.

    Args:
        env: with expanded actions.
        chat: the tokenizer of conversations.
        first_id: the width of the model's language head.
    """
    core = core_of(env)
    assert isinstance(core, ExpandedActionEnv)
    return expanded_vocabulary(partial(_encode, chat), first_id, core.expanded_actions, chat.end_ids[0])


def _encode(chat: ChatTokenizer, text: str) -> tuple[int, ...]:
    """Return a text in the middle of a turn as tokens, none of them a control token."""
    return chat.codec.encode(chat.control.neutralise(text)[0])


@dataclass(frozen=True, slots=True)
class TextRun:
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
class StartState:
    """The state from which an episode begins that does not begin at a reset.

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
    """An episode of the lock-step, over an environment, as `player.LockStep` takes it: `take` alone adds to its tokens.

    Attributes:
        tokens: all that the model reads, and what was decided.
        runs: the stretches of language so far.
        decisions: drawn so far.
        edited: texts that the environment recorded otherwise than they were sampled.
    """

    def __init__(self, words: ExpandedChat, env: gym.Env[Any, Any], item: Planned) -> None:
        """Set the planned episode and its environment; `begin` starts it."""
        self.tokens = ExpandedTokens((), 0)
        self.legal: tuple[int, ...] = ()
        self.runs: list[TextRun] = []
        self.seed = self.decisions = self.edited = 0
        self.over = False
        self._words, self._env, self._item = words, env, item
        self._core: ExpandedActionEnv = core_of(env)  # type: ignore[assignment]
        self._turns: list[Turn] = []
        self._prompt: tuple[Message, ...] = ()
        self._scores: list[tuple[float, float]] = []  # logprobs and entropies of the run that goes on
        self._run: tuple[int, Snapshot] | None = None  # its start
        self._success, self._fault = False, ""

    @property
    def ids(self) -> list[int]:
        """All tokens so far."""
        return self.tokens.ids

    @property
    def limit(self) -> int:
        """The largest number of tokens."""
        return self.tokens.limit

    def begin(self, start: StartState | None, room: Callable[[int], int]) -> None:
        """Begin at the first decision, or from a start state; `room` returns the tokens after a prompt. A fault ends it."""
        item = self._item
        try:
            if start is None:
                options = {"task": item.task, "split": item.split, "episode_key": item.key}
                _, info = self._env.reset(seed=item.seed, options=options)
                if info["context"] != "append" or info["prefill"]:
                    raise UsageError(f"{self._core.env_id}: ExpandedPlayer takes no wrapper that replaces or prefills")
            self._prompt = (start.prompt or self._core.episode.prompt) if start else shown_messages(self._env, info)
            prompt = self._words.prompt_ids(self._prompt)
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
        """Append a drawn token, or step the environment by an action; a fault or the end of room ends the episode."""
        self.decisions += 1
        end, first = self._words.rows[END].token_id, self._words.vocabulary
        try:
            if target < first and target != end:
                self.tokens.append_decision(target, self.legal, len(self._turns) + 1, (target,), logprob=logprob)
                self._scores.append((logprob, entropy))
            else:
                self._end_run()
                number = END if target == end else target - first + 1
                self._act(number, Reply(number, (target,), (logprob,), (entropy,)))
            if self.tokens.full:
                self._spend()
        except EnvFault as fault:
            self._fault, self.over = fault.cause, True

    def result(self, seconds: float) -> EpisodeResult:
        """Return the episode as `run_many` does, without turns if a fault ended it."""
        item, core = self._item, self._core
        if self._fault:
            head = Header(core.env_id, core.spec_digest, str(item.task), item.split, "", item.seed, item.key)
            return EpisodeResult(Trajectory(head, (), ()), "fault", self._fault, seconds=seconds)
        trajectory = Trajectory(core.episode.header, self._prompt, tuple(self._turns), success=self._success)
        status = "terminated" if self._turns[-1].terminated else "truncated"
        prompt = self._words.prompt_ids(self._prompt)
        usage = {"input": len(prompt), "output": self.decisions, **wrapper_usage(self._env)}
        return EpisodeResult(
            trajectory, status, usage=usage, terms=core.reward_spec.sums(core.trajectory), seconds=seconds
        )

    def _go_on(self) -> None:
        """Find the next decision's legal actions, with a snapshot in language; end the episode if it has no room."""
        if self.over:
            return
        self.legal = self._core.legal_actions()
        if END in self.legal:
            self._run = len(self.ids), snapshot(self._env)
        if self.tokens.full:
            self._spend()

    def _act(self, number: int, reply: Reply) -> None:
        """Step the environment by an action and append it; nothing where the text before it ended the episode."""
        if self.over:
            return
        legal, row = self.legal, self._words.rows[number]
        turn = self._step(reply)
        # `end` appends nothing and is a token itself.
        appended = self._words.observation_tokens(turn.observation) or row.description
        self.tokens.append_decision(row.token_id, legal, turn.index, appended, logprob=reply.logprobs[0])
        self._go_on()

    def _end_run(self) -> None:
        """Close the open stretch of language and step its text, if any, as one turn; nothing where none is open."""
        if self._run is None:
            return
        start, start_snapshot = self._run
        self.runs.append(TextRun(start, len(self.ids), start_snapshot))
        self._run = None
        if self._scores:
            logprobs, entropies = zip(*self._scores, strict=True)
            self._scores = []
            ids = tuple(self.ids[start:])
            text = self._words.chat.decode(ids)
            turn = self._step(Reply(text, ids, logprobs, entropies))
            self.edited += turn.action != text

    def _spend(self) -> None:
        """End the episode, whose tokens are used up, wherever that is legal; elsewhere until the environment ends it."""
        self._end_run()
        while not self.over:
            self._step(Reply(END))

    def _step(self, reply: Reply) -> Turn:
        """Step the environment with a reply, record the turn, and note whether the episode is over and solved."""
        step = self._env.step(reply.action)
        turn = record_turn(self._env, step, reply)
        self._turns.append(turn)
        self.over = turn.terminated or turn.truncated
        self._success = bool(step[4].get("success", False))
        return turn
