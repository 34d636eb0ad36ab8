"""Expanded actions extend a policy's vocabulary and belong to external environments (arXiv 2510.07581, section 2).

An external environment is one class: `actions`, `legal(state)` and `step(state, action) -> (observation, state, exit)`.
The environment in `expanded_env.py` routes into it; the one in `text_env.py` plays a tag's text through the same steps.
Nothing here knows a tokenizer: `expanded_vocabulary` says which ids a trainer gives to the actions of a tokenizer of its own.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import state_type

LANGUAGE = "language"
END = 0
MAX_CALL_CHARACTERS = 1000


@state_type
@dataclass(frozen=True, slots=True)
class Latent:
    """The latent state that an external environment reads and returns: the paper's z.

    Attributes:
        world: shared by the environments of one episode (a hidden arrangement, say).
        keyed: actions taken so far in this visit; the machine empties it on entry and on exit.
    """

    world: Any = ()
    keyed: tuple[str, ...] = ()

    def press(self, action: str) -> "Latent":
        """Return the state with one more action of this visit."""
        return Latent(self.world, (*self.keyed, action))


class Refusal(str):
    """An observation that reports an error of a finished call."""

    __slots__ = ()


class ExternalEnvironment:
    """An environment beside language. Subclasses give `name`, `desc`, `actions`, `legal` and `step`; the rest has defaults.

    Attributes:
        name: as `info["active"]`, the tag of the text face, and tool results call it.
        desc: the text that entering it appends to the history.
        actions: name -> the text that the action appends to the history, in the order of their ids.
        example: on the text face, a text that it takes.
        usage: on the text face, a sentence on what it does with the text that it is given.
    """

    name: str
    desc: str
    usage = ""
    example = ""
    actions: Mapping[str, str]

    def available(self, state: Latent) -> bool:
        """Return whether it may be routed into now."""
        return True

    def legal(self, state: Latent) -> Collection[str]:
        """Return the names of the actions that are legal now, never none; each environment overrides it."""
        raise NotImplementedError

    def step(self, state: Latent, action: str) -> tuple[str, Latent, bool]:
        """Take a legal action and return (observation, new state, whether control returns to language); each overrides it.

        Args:
            state: of the environment, which is replaced and never changed.
            action: the name of one of the actions that are legal in it.
        """
        raise NotImplementedError

    def trace(self, keyed: tuple[str, ...]) -> tuple[str, ...]:
        """Return the call's entry in `ToolResult.ids`; `keyed` are all its actions, the last included."""
        return keyed

    def call(self, state: Latent, text: str) -> tuple[str, Latent, tuple[str, ...]]:
        """Play a tag's text as actions: (observation, new state, trace); (Refusal, the old state, ()) unless they all fit.

        Args:
            state: of the environment, which is replaced and never changed.
            text: of the tag.
        """
        if len(text) > MAX_CALL_CHARACTERS:
            return Refusal(f"Error: the call is longer than {MAX_CALL_CHARACTERS} characters"), state, ()
        names = [word for word in text.replace(",", " ").split() if word != "and"]
        state_now, observation, left = Latent(state.world), "", False
        for name in names:
            legal = self.legal(state_now)
            if left or name not in legal:
                why = "nothing more" if left else " or ".join(legal)
                return Refusal(f"Error: {_shorten(name)} cannot stand there; expected {why}"), state, ()
            observation, state_now, left = self.step(state_now, name)
        if not left:
            return Refusal(f"Error: incomplete; expected {' or '.join(self.legal(state_now))}"), state, ()
        plain = observation.strip().lstrip(":=>").strip()
        result = Refusal(plain) if isinstance(observation, Refusal) else plain
        return result, Latent(state_now.world), self.trace(tuple(names))


@dataclass(frozen=True, slots=True)
class ExpandedAction:
    """One action beyond the vocabulary.

    Attributes:
        id: 0 is `end`, then the routing actions, then the environments' actions.
        name: unique among the actions of an environment's episode machine.
        desc: the text that it appends to the history; "" for `end`.
        environments: where it is legal (`language` for `end` and routing actions); an action may be shared.
        kind: `end`, `route` or `act`.
    """

    id: int
    name: str
    desc: str
    environments: tuple[str, ...]
    kind: str


def expanded_actions(environments: Sequence[ExternalEnvironment]) -> tuple[ExpandedAction, ...]:
    """Return `end`, a routing action for each environment, then their actions, shared ones once; UsageError on a name clash.

    An action that two environments name and describe alike is one action with one id, as in the released code.

    Raises:
        UsageError: two environments have one name, or one action name has two descriptions.
    """
    for environment in environments:
        missing = [name for name in ("name", "desc", "actions", "legal", "step") if not hasattr(environment, name)]
        if missing or not isinstance(environment, ExternalEnvironment):
            lacks = (
                f"lacks {', '.join(missing)}" if missing else "is no subclass of agent_envs.expa.ExternalEnvironment"
            )
            raise UsageError(f"external environment {type(environment).__name__} {lacks}")
    table = [ExpandedAction(END, "end", "", (LANGUAGE,), "end")]
    for environment in environments:
        table.append(ExpandedAction(len(table), environment.name, environment.desc, (LANGUAGE,), "route"))
    routes = [action.name for action in table]
    if len(set(routes)) != len(routes) or LANGUAGE in routes:
        raise UsageError(f"external environments are named {routes[1:]}; give each a name of its own, not {LANGUAGE!r}")
    places: dict[str, int] = {}
    for environment in environments:
        for name, desc in environment.actions.items():
            place = places.setdefault(name, len(table))
            if place == len(table):
                table.append(ExpandedAction(place, name, desc, (environment.name,), "act"))
                continue
            earlier = table[place]
            if earlier.desc != desc:
                raise UsageError(
                    f"action {name!r} is described as {earlier.desc!r} and as {desc!r}; give it one description"
                )
            table[place] = replace(earlier, environments=(*earlier.environments, environment.name))
    return tuple(table)


@dataclass(frozen=True, slots=True)
class VocabularyRow:
    """An expanded action in a tokenizer's terms.

    Attributes:
        action: id of the expanded action.
        token_id: the id that the trainer gives it.
        start: the token whose output row the new row starts from: the first of `description`.
        description: token ids of the action's text, which stand for it in a language model's input.
    """

    action: int
    token_id: int
    start: int
    description: tuple[int, ...]


def expanded_vocabulary(
    tokenizer: Any, first_id: int, actions: Sequence[ExpandedAction], end_id: int | None = None
) -> tuple[VocabularyRow, ...]:
    """Return the id of each expanded action and the token that its row starts from; UsageError without a token or `end` id.

    `end` keeps the end-of-sequence token; the others get `first_id`, `first_id + 1`, ... in the order of their ids. Rows
    start from the first token of the description (appendix D.1; exact for descriptions of one token).

    Args:
        tokenizer: anything with `encode(text, add_special_tokens=False) -> list of ids`, or a function text -> ids.
        first_id: the first id beyond the vocabulary.
        actions: `env.expanded_actions`.
        end_id: the id of `end`; by default `tokenizer.eos_token_id`.

    Raises:
        UsageError: no end-of-sequence id is known, or a description has no token.
    """
    eos = getattr(tokenizer, "eos_token_id", None) if end_id is None else end_id
    if eos is None:
        raise UsageError(
            "expanded_vocabulary: the tokenizer has no eos_token_id; give end_id, the id that `end` maps to"
        )
    if first_id <= int(eos) < first_id + len(actions) - 1:
        raise UsageError(
            f"expanded_vocabulary: first_id={first_id} gives an action the id {eos} of `end`; begin elsewhere"
        )
    rows = [VocabularyRow(END, int(eos), int(eos), (int(eos),))]
    for place, action in enumerate(actions[1:]):
        tokens = _encode(tokenizer, action.desc)
        if not tokens:
            raise UsageError(
                f"expanded_vocabulary: {action.name!r} is described as {action.desc!r}, which has no token"
            )
        rows.append(VocabularyRow(action.id, first_id + place, tokens[0], tokens))
    return tuple(rows)


def _encode(tokenizer: Any, text: str) -> tuple[int, ...]:
    """Return a text's token ids: by `encode` without special tokens where the tokenizer has it, else by calling it."""
    encode: Callable[..., Any] | None = getattr(tokenizer, "encode", None)
    ids = tokenizer(text) if encode is None else encode(text, add_special_tokens=False)
    return tuple(int(token) for token in ids)


def _shorten(text: str) -> str:
    """Return a text as an ASCII literal in quotes; of more than 40 characters the first 40 and "..."."""
    return ascii(text if len(text) <= 40 else text[:40] + "...")  # repr differs between versions of Python
