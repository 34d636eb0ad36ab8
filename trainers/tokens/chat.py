"""Conversations become tokens: what was sampled stays as it was sampled, everything else is encoded once, on entry."""

import copy
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from transformers import PreTrainedTokenizerBase

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import Message
from agent_envs.core.trajectory import Trajectory, Turn, segments
from trainers.contracts import TokenSequence
from trainers.tokens.control import Codec, control_tokens
from trainers.tokens.rendering import Pieces, Rows, find_template, shape_of, with_objects

T = TypeVar("T")
Messages = Sequence[Message | Mapping[str, Any]]
_CACHE_CHARACTERS = 2_000_000  # of rendered pieces: they and their tokens take a hundred megabytes at most


class ChatTokenizer:
    """A tokenizer and a chat template, for conversations that only grow.

    No template can rewrite what has been said: see `TemplateShape`. Texts in messages cannot become control tokens: where
    one spells `<|im_end|>` or the like, a space breaks it up.

    Attributes:
        tokenizer: of the model.
        template: the jinja text.
        end_ids: the token that closes a turn of the assistant: an engine's end of sequence.
        pad_id: fills batches up.
        shape: how the template takes messages.
        control: the tokens that no message can spell, and that are no part of an action's text.
        codec: encodes and decodes pieces.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, template: str = "auto") -> None:
        """Take a tokenizer and a template.

        Args:
            tokenizer: of the model.
            template: "auto" for the tokenizer's own, "chatml", "qwen", "llama", or a jinja text.

        Raises:
            UsageError: there is no template, or it cannot write a plain conversation, or nothing closes a turn.
        """
        chat_template = find_template(tokenizer, template)
        self.tokenizer = tokenizer
        self.template = chat_template.source
        self.shape = shape_of(chat_template)
        self._pieces = Pieces(chat_template, self.shape)
        question: Rows = [{"role": "user", "content": "?"}]
        frame = (
            self._pieces.opening([{"role": "system", "content": "!"}, *question])
            + self._pieces.after(question)
            + self._pieces.closing()
        )
        self.control = control_tokens(tokenizer, frame)
        self.codec = Codec(tokenizer, self.control)
        self._lead, self.end_ids = self._ending()
        # Some templates close the last turn of all by another token than the others.
        closes = self.end_ids[0] in self.codec.encode_rendered(self._pieces.closing())
        self._head = self._head_of(self._pieces.after(question)) if closes else ()
        self.pad_id = self.end_ids[0] if tokenizer.pad_token_id is None else int(tokenizer.pad_token_id)
        self._rendered = TextCache(self._render, _CACHE_CHARACTERS)

    def open(self, messages: Messages, tools: Sequence[Mapping[str, Any]] = ()) -> "Conversation":
        """Return a conversation up to where the assistant speaks, or goes on with its last message; UsageError if refused.

        Raises:
            UsageError: the template refuses the messages.
        """
        conversation = Conversation(self)
        rows, broken = self.clean(messages)
        schemas, more = self.control.neutralise_all(list(tools))
        conversation.neutralised = broken + more
        conversation.append_context(self._rendered("opening", _cache_key(rows, schemas)))
        return conversation

    def resume(self, row: Mapping[str, Any]) -> "Conversation":
        """Return the conversation of a `Conversation.to_json`."""
        conversation = Conversation(self)
        conversation.ids, conversation.trained = list(row["ids"]), list(row["trained"])
        conversation.logprobs, conversation.turns = list(row["logprobs"]), list(row["turns"])
        conversation.neutralised, conversation._closed = int(row["neutralised"]), bool(row["closed"])
        return conversation

    def sequences(self, trajectory: Trajectory, tools: Sequence[Mapping[str, Any]] = ()) -> list[TokenSequence]:
        """Return a recorded episode as it was played, one sequence for each context.

        Turns with tokens keep them; the others are demonstrations.

        Args:
            trajectory: the record.
            tools: the schemas that the policy was shown in every opening.
        """
        sequences = []
        for start, turns in segments(trajectory):
            conversation = self.open(start, tools)
            for before, turn in zip((None, *turns), turns, strict=False):
                if before is not None:
                    conversation.observe(before.observation)
                conversation.record(turn)
            sequences.append(conversation.sequence())
        return sequences

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, every space as it is, without control tokens."""
        return self.codec.decode(ids)

    def clean(self, messages: Messages) -> tuple[Rows, int]:
        """Return messages as plain dicts without control tokens in their texts, and how many were broken up."""
        rows: Rows = []
        broken = 0
        for message in messages:
            row = dict(message.as_dict() if isinstance(message, Message) else message)
            # Calls are read before they are cleaned: an escape in a JSON text can spell what the text does not.
            plain = with_objects(row) if self.shape.objects else row
            clean, count = self.control.neutralise_all({**plain, "content": plain.get("content") or ""})
            rows.append({**clean, "role": row["role"]})
            broken += count
        return rows, broken

    def following(self, messages: Rows, *, closed: bool) -> tuple[int, ...]:
        """Return the tokens after a turn: its end unless it is `closed`, messages, and the beginning of the next turn."""
        ids = self._rendered("after", _cache_key(messages, []))
        return ids[len(self._head) :] if closed and ids[: len(self._head)] == self._head else ids

    def demonstration(self, text: str, *, close: bool) -> tuple[int, ...]:
        """Return a turn as the model should write it."""
        ids = self.codec.encode(text)
        return (*ids, *self._lead, *self.end_ids) if close else ids

    def _render(self, kind: str, key: str) -> tuple[int, ...]:
        """Render messages, or an opening with tools, from their key, and encode the text."""
        messages, tools = json.loads(key)
        text = self._pieces.after(messages) if kind == "after" else self._pieces.opening(messages, tools)
        return self.codec.encode_rendered(text)

    def _ending(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the tokens between the assistant's words and the one that closes the turn, and that; UsageError for none."""
        head = self._head_of(self._pieces.closing())
        if head:
            return head[:-1], head[-1:]
        eos = self.tokenizer.eos_token_id
        if not isinstance(eos, int):
            raise UsageError("nothing closes a turn: the template writes no control token, and there is no eos_token")
        return (), (eos,)

    def _head_of(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a piece up to its first control token; none without any."""
        ids = self.codec.encode_rendered(text)
        place = next((place for place, number in enumerate(ids) if number in self.control.texts), -1)
        return ids[: place + 1]


class Conversation:
    """One growing row of tokens. What is in never changes; the lists are for reading.

    Attributes:
        ids: the tokens.
        trained: which of them the policy sampled, or a demonstration wrote.
        logprobs: of trained tokens; 0 elsewhere.
        turns: the turn of trained tokens, from 1; 0 elsewhere.
        neutralised: how many control tokens were spelled by texts, and broken up.
    """

    def __init__(self, chat: ChatTokenizer) -> None:
        """Start empty; `ChatTokenizer.open` starts with messages."""
        self.ids: list[int] = []
        self.trained: list[bool] = []
        self.logprobs: list[float] = []
        self.turns: list[int] = []
        self.neutralised = 0
        self._chat = chat
        self._closed = False

    def copy(self) -> "Conversation":
        """Return a copy that grows independently."""
        twin = copy.copy(self)
        twin.ids, twin.trained, twin.logprobs, twin.turns = (
            list(part) for part in (self.ids, self.trained, self.logprobs, self.turns)
        )
        return twin

    def to_json(self) -> dict[str, Any]:
        """Return all of it as plain JSON, for `ChatTokenizer.resume`."""
        return {
            "ids": list(self.ids), "trained": list(self.trained), "logprobs": list(self.logprobs), "turns": list(self.turns),
            "neutralised": self.neutralised, "closed": self._closed,
        }  # fmt: skip

    def append_context(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Append tokens that were not sampled, and return them."""
        self._extend(ids, [False] * len(ids), [0.0] * len(ids), 0)
        return tuple(ids)

    def prefill(self, text: str) -> tuple[int, ...]:
        """Append the beginning of the policy's turn, which it is given, and return its tokens.

        Raises:
            UsageError: the turn is closed.
        """
        self._check_open()
        return self.append_context(self._encode(text))

    def append_sampled(self, ids: Sequence[int], logprobs: Sequence[float], turn: int) -> None:
        """Append what the policy sampled, the token that closes its turn included where it sampled it.

        Raises:
            UsageError: the turn is closed, or there is not one logprob a token.
        """
        self._append_turn(ids, [True] * len(ids), logprobs, turn)

    def append_demonstration(self, text: str, turn: int, *, close: bool = True) -> None:
        """Append what a policy should write, control words broken up, and with `close` the closing token; UsageError if closed.

        Raises:
            UsageError: the turn is closed.
        """
        broken_up, count = self._chat.control.neutralise(text)
        self.neutralised += count
        ids = self._chat.demonstration(broken_up, close=close)
        self.append_sampled(ids, [0.0] * len(ids), turn)

    def observe(self, messages: Messages) -> None:
        """Close the assistant's turn, append messages and begin its next; the assistant's messages go on within its turn.

        Messages of the assistant are text of its turn, and it goes on behind them: so histories grow where actions append.

        Raises:
            UsageError: the template refuses the messages.
        """
        rows, broken = self._chat.clean(messages)
        self.neutralised += broken
        waiting: Rows = []
        for row in rows:
            if row["role"] != "assistant":
                waiting.append(row)
                continue
            if waiting or self._closed:
                self._begin_turn(waiting)
                waiting = []
            self.append_context(self._chat.codec.encode(row["content"]))
        if waiting or not rows:
            self._begin_turn(waiting)

    def record(self, turn: Turn) -> None:
        """Append a recorded turn: its tokens, else its text as a demonstration; nothing for an expanded action without any.

        Raises:
            UsageError: its masks or logprobs are not one a token.
        """
        ids = turn.token_ids
        if not ids:
            if isinstance(turn.action, str):  # an expanded action is what it appends: that is in the observation
                goes_on = bool(turn.observation) and turn.observation[0].role == "assistant"
                self.append_demonstration(turn.action, turn.index, close=not goes_on)
            return
        self._append_turn(ids, turn.sampled or [True] * len(ids), turn.logprobs or [0.0] * len(ids), turn.index)

    def sequence(self) -> TokenSequence:
        """Return the tokens so far."""
        return TokenSequence(tuple(self.ids), tuple(self.trained), tuple(self.logprobs), tuple(self.turns))

    def _begin_turn(self, rows: Rows) -> None:
        """Append the messages before a turn and the beginning of the turn, which is open then."""
        self.append_context(self._chat.following(rows, closed=self._closed))
        self._closed = False

    def _append_turn(self, ids: Sequence[int], trained: Sequence[bool], logprobs: Sequence[float], turn: int) -> None:
        """Append what the policy wrote in the open turn; an end token closes it."""
        self._check_open()
        self._extend(ids, trained, logprobs, turn)
        self._closed = bool(ids) and ids[-1] == self._chat.end_ids[0]

    def _encode(self, text: str) -> tuple[int, ...]:
        """Encode a text with its control words broken up, and count these."""
        broken_up, count = self._chat.control.neutralise(text)
        self.neutralised += count
        return self._chat.codec.encode(broken_up)

    def _check_open(self) -> None:
        """Raise UsageError if the turn is closed."""
        if self._closed:
            raise UsageError("the turn is closed: observe() what followed it before the policy speaks again")

    def _extend(self, ids: Sequence[int], trained: Sequence[bool], logprobs: Sequence[float], turn: int) -> None:
        """Append tokens with their marks, logprobs and turn (zeros where not trained); UsageError where numbers differ."""
        if not len(ids) == len(trained) == len(logprobs):
            raise UsageError(f"{len(ids)} tokens came with {len(trained)} marks and {len(logprobs)} logprobs")
        self.ids += ids
        self.trained += trained
        self.logprobs += [value if mine else 0.0 for value, mine in zip(logprobs, trained, strict=True)]
        self.turns += [turn if mine else 0 for mine in trained]


def drift(sampled: TokenSequence, rebuilt: TokenSequence) -> int:
    """Count the tokens in which two records of one conversation differ, from the first difference on: 0 is right."""
    ours, theirs = (
        list(zip(sampled.ids, sampled.trained, strict=True)),
        list(zip(rebuilt.ids, rebuilt.trained, strict=True)),
    )
    same = 0
    while same < min(len(ours), len(theirs)) and ours[same] == theirs[same]:
        same += 1
    return max(len(ours), len(theirs)) - same


def _cache_key(messages: Rows, tools: Sequence[Any]) -> str:
    """Return the text of messages and tools that names them in a cache."""
    return json.dumps([messages, tools], ensure_ascii=False)


class TextCache(Generic[T]):
    """A function of texts with a cache of its latest results, bounded by characters, not by entries.

    Attributes:
        characters: of all texts whose results are kept.
    """

    def __init__(self, function: Callable[..., T], most: int) -> None:
        """Take a function that has no other effect than its result, and how many characters of arguments are kept."""
        self.characters = 0
        self._function, self._most = function, most
        self._results: OrderedDict[tuple[str, ...], T] = OrderedDict()
        self._lock = threading.Lock()  # episodes play in threads

    def __call__(self, *texts: str) -> T:
        """Call the function on these texts, or return its cached result; beyond the limit the least recently used go."""
        with self._lock:
            if texts in self._results:
                self._results.move_to_end(texts)
                return self._results[texts]
        result = self._function(*texts)
        with self._lock:
            if texts not in self._results:
                self._results[texts] = result
                self.characters += sum(map(len, texts))
            while self.characters > self._most:
                oldest, _ = self._results.popitem(last=False)
                self.characters -= sum(map(len, oldest))
        return result
