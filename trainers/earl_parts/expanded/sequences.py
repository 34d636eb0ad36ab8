"""Episodes with expanded actions become tokens: while they are played, from their record, and from demonstrations.

The model reads vocabulary tokens only. What an action appends, its description and what the environment answers, is encoded
once, as one text; the decision for the action stands at the first of these tokens, as a target beyond the vocabulary.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import Message
from agent_envs.base.protocol import Malformed
from agent_envs.core.env import core_of
from agent_envs.core.trajectory import Trajectory, Turn
from agent_envs.envs.expa import ExpandedActionEnv, VocabularyRow, expanded_vocabulary
from trainers.contracts import TokenSequence
from trainers.tokens import ChatTokenizer

END = 0
_KEPT_TEXTS = 4096
_NO_LIMIT = 2**62


class ExpandedTokens:
    """One growing row of tokens, and what was decided at each. The lists are for reading.

    Attributes:
        ids: the tokens, which the model reads; never more than `limit`.
        legal: which actions were legal at each decision, () elsewhere.
        limit: how many tokens there may be; what is appended beyond is cut off.
    """

    def __init__(self, given: Sequence[int], limit: int) -> None:
        """Start with tokens that nobody decided on: a prompt."""
        self.limit = limit
        self.ids: list[int] = []
        self.legal: list[tuple[int, ...]] = []
        self._trained: list[bool] = []
        self._logprobs: list[float] = []
        self._turns: list[int] = []
        self._targets: list[int] = []
        self.given(given)

    @classmethod
    def after(cls, sequence: TokenSequence, limit: int) -> "ExpandedTokens":
        """Go on from a sequence."""
        tokens = cls((), limit)
        tokens.ids, tokens.legal = list(sequence.ids), list(sequence.legal or [()] * len(sequence.ids))
        tokens._trained, tokens._logprobs = list(sequence.trained), list(sequence.logprobs)
        tokens._turns, tokens._targets = list(sequence.turns), list(sequence.targets or sequence.ids)
        return tokens

    @property
    def full(self) -> bool:
        """Whether there is no room left."""
        return len(self.ids) >= self.limit

    def given(self, ids: Sequence[int]) -> None:
        """Append tokens that nobody decided on, as far as there is room."""
        ids = ids[: max(0, self.limit - len(self.ids))]
        nothing = len(ids)
        self.ids += ids
        self._targets += ids
        self.legal += [()] * nothing
        self._trained += [False] * nothing
        self._logprobs += [0.0] * nothing
        self._turns += [0] * nothing

    def decided(
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
        self._targets.append(target)
        self.legal.append(legal)
        self._trained.append(logprob is not None)
        self._logprobs.append(logprob or 0.0)
        self._turns.append(turn)
        self.given(rest)

    def sequence(self) -> TokenSequence:
        """Return the tokens so far."""
        parts = (self.ids, self._trained, self._logprobs, self._turns, self._targets, self.legal)
        return TokenSequence(*map(tuple, parts))  # type: ignore[arg-type]


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
        self._encoded = lru_cache(maxsize=_KEPT_TEXTS)(partial(_encoded, chat))

    def check(self, env: gym.Env[Any, Any]) -> ExpandedActionEnv:
        """Return the core of an environment whose actions these are, or the first of these: fewer items to sort.

        Raises:
            UsageError: it has others, or none.
        """
        core = core_of(env)
        if not isinstance(core, ExpandedActionEnv):
            raise UsageError(f"{core.env_id} has no expanded actions; EnginePolicy plays it")
        if (rows := vocabulary_rows(env, self.chat, self.vocabulary)) != self.rows[: len(rows)]:
            raise UsageError(f"{core.env_id}: its expanded actions are not those of the model's expanded head")
        return core

    def opened(self, prompt: Sequence[Message]) -> tuple[int, ...]:
        """Return a prompt as tokens, up to where the policy speaks."""
        return tuple(self.chat.open(prompt).ids)

    def shown(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Return what the environment appended as tokens, its text encoded as one."""
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
        prompt = self.opened(trajectory.prompt)
        tokens = ExpandedTokens(prompt, len(prompt) + limit if limit is not None else _NO_LIMIT)
        for turn in trajectory.turns:
            legal = core.legal_actions()
            core.step(turn.action)
            self._record(tokens, turn, legal)
        return tokens.sequence()

    def _record(self, tokens: ExpandedTokens, turn: Turn, legal: tuple[int, ...]) -> None:
        if isinstance(turn.parsed, Malformed):
            tokens.given(self.shown(turn.observation))
            return
        logprobs: list[float | None] = list(turn.logprobs or [0.0] * len(turn.token_ids))
        if turn.sampled:
            logprobs = [logprob if mine else None for logprob, mine in zip(logprobs, turn.sampled, strict=True)]
        if isinstance(turn.action, str):
            said = turn.token_ids or self._encoded(turn.action)
            for token, logprob in zip(said, logprobs or [0.0] * len(said), strict=True):
                tokens.decided(token, legal, turn.index, (token,), logprob=logprob)
            return
        row = self.rows[turn.action]
        appended = self.shown(turn.observation) or row.description  # `end` appends nothing and is a token itself
        tokens.decided(row.token_id, legal, turn.index, appended, logprob=(logprobs or [0.0])[0])


def vocabulary_rows(env: gym.Env[Any, Any], chat: ChatTokenizer, first_id: int) -> tuple[VocabularyRow, ...]:
    """Return the rows of an environment's expanded actions as a chat tokenizer writes them; `end` ends a turn of the chat.

    Args:
        env: with expanded actions.
        chat: the tokenizer of conversations.
        first_id: the width of the model's language head.
    """
    core = core_of(env)
    assert isinstance(core, ExpandedActionEnv)
    return expanded_vocabulary(partial(_encoded, chat), first_id, core.expanded_actions, chat.end_ids[0])


def _encoded(chat: ChatTokenizer, text: str) -> tuple[int, ...]:
    """Return a text in the middle of a turn as tokens, none of them a control token."""
    return chat.codec.encode(chat.control.neutralise(text)[0])
