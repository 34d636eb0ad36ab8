"""A bounded memory rebuilds the context every turn from the task and the last turns (Verlog's setting)."""

from typing import Any

import gymnasium as gym

from agent_envs.base.arguments import choice, whole_number
from agent_envs.base.dialects import TOLERATED, masked_thoughts
from agent_envs.base.messages import Message
from agent_envs.base.protocol import Answer, Call, LabelProtocol, Malformed, Say
from agent_envs.core.env import TurnEnv, TurnWrapper, wrapper_messages
from agent_envs.core.trajectory import Turn

KEEP = ("turns", "actions")
_NOBODY = ("", "")
_LABELLED = LabelProtocol()
_CALLS = "tool_call"  # several stand one after another

Pairs = tuple[tuple[str, str], ...]


class Memory(TurnWrapper):
    """Replace the growing conversation by: the opening messages, the last `turns` turns, and the news.

    `info["context"]` becomes `replace` and `info["messages"]` the whole context; the observation stays the new text.
    Of an environment that says how many messages of its reset are `standing`, the others are the observation before the
    first turn, and are forgotten like any other: the last `turns` + 1 observations are shown, with the turns between them.

    `state` is (opening messages, exchanges), each message as (role, content), an exchange being the policy's turn and the
    messages that answered it. Native tool-call fields are not kept: the text of the turn already holds the calls.
    """

    state: tuple[Pairs, tuple[Pairs, ...]] = ((), ())

    def __init__(self, env: gym.Env[Any, Any], turns: int = 1, keep: str = "turns") -> None:
        """Keep `turns` >= 0 past turns besides the newest observation: whole `turns`, or their `actions` without thoughts."""
        # A default that came later is no part of the label: snapshots from before it still fit.
        super().__init__(env, turns=turns, **({} if keep == "turns" else {"keep": keep}))
        whole_number("Memory", "turns", turns, 0)
        choice("Memory", "keep", keep, KEEP)
        self.turns, self.keep = turns, keep
        self.standing = getattr(self.turn_env(), "standing", None)
        self.state = ((), ())

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset, and keep the standing messages as opening and those behind them as the first observation to forget."""
        observation, info = self.env.reset(seed=seed, options=options)
        pairs = _role_content_pairs(info["messages"])
        # Feedback is news too: it is not what a task stands on.
        news = len(wrapper_messages(self.env))
        core = self.turn_env()
        standing = len(pairs) - news if self.standing is None else self.standing + core.example_messages
        first = ((_NOBODY, *pairs[standing:]),) if self.standing is not None or news else ()
        self.state = (pairs[:standing], first)
        return observation, self._rebuild(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a turn, keep it with its answers, and put opening and last turns in info's messages, context `replace`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        opening, exchanges = self.state
        turn = self.turn_env().episode.turns[-1]
        text = acting_text(turn, acting_tags(self.turn_env())) if self.keep == "actions" else str(turn.action)
        own = ("assistant", text)
        # What an expanded action says is the text that it appends, which follows as the environment's message.
        if isinstance(turn.action, int) or ("action_mask" in info and isinstance(turn.parsed, Malformed)):
            own = _NOBODY
        exchange = (own, *_role_content_pairs(info["messages"]))
        # The newest observation answers the newest turn, so `turns` past turns need one exchange more.
        self.state = (opening, (*exchanges, exchange)[-(self.turns + 1) :])
        return observation, reward, terminated, truncated, self._rebuild(info)

    def hear(self, message: Message) -> None:
        """Add a message of an outer wrapper to the newest exchange in the state, forgotten with it; info stays."""
        opening, exchanges = self.state
        *older, newest = exchanges or ((_NOBODY,),)
        self.state = (opening, (*older, (*newest, (message.role, message.content))))

    def _rebuild(self, info: dict[str, Any]) -> dict[str, Any]:
        """Put opening and last turns in info's messages, context `replace`; return info. Of a turn too many, no action."""
        opening, exchanges = self.state
        recent = list(exchanges)
        if len(recent) > self.turns:
            recent[0] = recent[0][1:]
        rows = (*opening, *(pair for exchange in recent for pair in exchange))
        info["messages"] = [{"role": role, "content": content} for role, content in rows if role]
        info["context"] = "replace"
        return info


def _role_content_pairs(messages: list[dict[str, Any]]) -> Pairs:
    """Return role and content of each message."""
    return tuple((message["role"], message["content"]) for message in messages)


def acting_tags(core: TurnEnv) -> tuple[str, ...]:
    """Return the names of the tags that act in an environment."""
    closing = (*core.stop, core.answer_tags[1], f"</{_CALLS}>")
    return tuple(tag[2:-1] for tag in closing if tag.startswith("</"))


def acting_text(turn: Turn, tags: tuple[str, ...] = ()) -> str:
    """Return a turn's acting text: a label and its action, the tag that acts, or what an open tag begins; else all of it.

    Args:
        turn: of the policy.
        tags: names of the tags that act, such as `search`.
    """
    if isinstance(turn.parsed, Say) and _is_labelled(turn, masked_thoughts(str(turn.action))):
        return f"{_LABELLED.label} {turn.parsed.text}"
    start, end = acting_span(turn, tags)
    return str(turn.action)[start:end]


def acting_span(turn: Turn, tags: tuple[str, ...] = ()) -> tuple[int, int]:
    """Return the (start, end) that acts: a label's line, the first closed tag, from an open tag on, or all without action."""
    text, parsed = masked_thoughts(str(turn.action)), turn.parsed
    if isinstance(parsed, Say) and _is_labelled(turn, text):
        start, line = _LABELLED.places(text)[-1], _LABELLED.parse(text)
        name = line.text if isinstance(line, Say) else ""
        return start, text.index(name, start + len(_LABELLED.label)) + len(name)
    if not isinstance(parsed, Call | Answer):
        return 0, len(text)
    closed, opened = list[tuple[int, int]](), [-1]
    for tag in tags:
        start = text.find(f"<{tag}>")
        end = text.rfind(f"</{tag}>") if tag == _CALLS else text.find(f"</{tag}>", start)
        if 0 <= start < end:
            closed.append((start, end + len(tag) + 3))
        elif start >= 0:
            opened.append(text.rfind(f"<{tag}>"))
    return min(closed) if closed else (max(0, *opened), len(text))


def _is_labelled(turn: Turn, text: str) -> bool:
    """Return whether a turn acted by the line behind a label: as it stands, or by the name with which that line begins."""
    line = _LABELLED.parse(text)
    return line == turn.parsed or (isinstance(line, Say) and any(event.startswith(TOLERATED) for event in turn.events))
