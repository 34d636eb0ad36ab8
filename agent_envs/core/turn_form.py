"""`TurnForm` is the part of an environment that shows the form of a turn, reads turns in it, and teaches who missed it."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent_envs.base.arguments import choice, flag, whole_number
from agent_envs.base.dialects import (
    CUT_SHORT,
    NOT_CLOSED,
    THOUGHTS,
    TOLERATED,
    before_run_on,
    canonical_calls,
    dressed,
    is_plain,
    outside_thoughts,
    plain_turn,
    without_open_action,
    without_placeholders,
)
from agent_envs.base.messages import Message
from agent_envs.base.protocol import LabelProtocol, Malformed, MarkedAnswerProtocol, TagProtocol
from agent_envs.core.episode import Episode, Outcome
from agent_envs.core.worked_turns import opened, worked_turns


class TurnForm:
    """The form of a turn: worked turns before the task, readers of other dialects, words for a turn without an action."""

    tools: tuple[Mapping[str, Any], ...] = ()
    answer_tags: tuple[str, str] = ("", "")
    written: TagProtocol | MarkedAnswerProtocol | LabelProtocol | None = None  # of actions that are no native calls
    examples = 0  # worked turns before the task
    example_messages = 0  # how many messages of the prompt these are
    example_agent = "solver"  # whose turns they are: `heuristic`, where a solver's rest on what a policy cannot know
    example_turn = ""  # a turn of the right form, for who wrote none
    example_is_copied = False  # whether models repeat worked turns: then the prompt says not to
    example_is_long = False  # whether worked turns may be longer than replies: then the prompt has a short one
    outside_arguments: tuple[str, ...] = ("tasks",)  # that worked turns do without: other tasks, outside services
    thoughts, strict = THOUGHTS[0], False  # how turns are read
    reply_cut = False  # whether a limit cut the reply that is stepped next: who plays says so before each step

    def take_form(self, examples: int, thoughts: str, strict: bool) -> None:
        """Set the arguments that every id has: worked turns in a prompt, and how turns are read; UsageError out of range.

        Args:
            examples: worked turns before the task, 0 to 2.
            thoughts: `skip`: text inside `<think>...</think>` is no action; `count`: it is read like any other.
            strict: whether turns in another dialect than the prompt's are malformed.

        Raises:
            UsageError: one of them is out of its range.
        """
        name = type(self).__name__
        self.examples = whole_number(name, "examples", examples, 0, 2)
        self.thoughts, self.strict = choice(name, "thoughts", thoughts, THOUGHTS), flag(name, "strict", strict)

    def restate(self, episode: Episode) -> str:
        """Return the question or goal of an episode in a line, for prompts with examples and for who wrote no action."""
        return ""

    def form_reminder(self) -> str:
        """Return the sentence on the form of a turn, by the protocol, that stands behind a question after examples."""
        protocol = self.written
        if isinstance(protocol, MarkedAnswerProtocol):
            return f"Reply as in the example: a call inside its tags, or the answer behind {protocol.mark}."
        form = "with one action inside its tags" if protocol else "by a call of a tool"
        if isinstance(protocol, LabelProtocol):
            form = f"with the action behind {protocol.label} in the last line"
        if self.example_is_copied:
            return f"Reply {form}, for this task and not for the example."
        return f"Reply as in the example, {form}."

    def teach(self, episode: Episode, reason: str) -> str:
        """Return the words for a turn without an action: what was wrong, a turn of the right form, and the task again."""
        # A native call is no text.
        form = self.example_turn.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>")
        example = f"A turn of the right form, for another task:\n{form}" if form else ""
        return "\n".join(filter(None, (f"Your turn held no action: {reason}.", example, self.restate(episode))))

    def _with_examples(self, episode: Episode) -> tuple[Message, ...]:
        """Return the prompt with worked turns before the task and a reminder of the form behind it; set `example_messages`."""
        worked = worked_turns(self, self.examples)
        instructions = [message for message in episode.prompt if message.role == "system"]
        words = "The example ends here, and your task begins."
        boundary, *others, last = opened(episode, words, self.restate(episode))
        self.example_messages = len(worked) + 1
        if form := self.form_reminder():
            last = replace(last, content=f"{last.content}\n\n{form}")
        return (*instructions, *worked, boundary, *others, last)

    def _outcome(self, episode: Episode, action: Any) -> Outcome:
        """Advance an episode by an id, or by a text without thoughts and, unless strict, in the protocol's own form."""
        if not isinstance(action, str):
            return self._advance(episode, action)
        if self.tools and not self.reply_cut and is_plain(action) and type(self)._tolerate is TurnForm._tolerate:
            return self._advance(episode, action)
        skips = self.thoughts == "skip" and not self.reply_cut
        if skips and action.endswith(">") and (plain := plain_turn(action)):
            return self._advance(episode, action[plain.end(1) :])
        text, fault = action, ""
        events: tuple[str, ...] = ()
        if self.reply_cut or dressed(action):
            text, is_open = outside_thoughts(action) if self.thoughts == "skip" else (action, False)
            whole, text = text, self._without_open_action(text) if self.reply_cut else text
            fault = NOT_CLOSED if is_open else "" if text == whole else CUT_SHORT
            if not self.strict:
                text, events = before_run_on(text, self._action_pattern)
        if not self.strict:
            text, tolerated = self._tolerate(episode, text)
            events += tolerated
        outcome = self._advance(episode, text)
        if fault and isinstance(outcome.parsed, Malformed):
            outcome = _with_reason(outcome, outcome.parsed.reason, fault)
        if events:
            outcome.events = events + outcome.events
        return outcome

    def _without_open_action(self, text: str) -> str:
        """Return a reply that its limit cut, less an action at its end that might go on."""
        written, (opening, closing) = self.written, self.answer_tags
        if isinstance(written, LabelProtocol):
            line = max(written.places(text), default=-1 - len(written.label)) + len(written.label)
            return without_open_action(text, (), line=line)
        tags = (*(written.tools if written else ()), *([opening[1:-1]] if closing else []))
        return without_open_action(text, tags, written.mark if isinstance(written, MarkedAnswerProtocol) else "")

    def _action_pattern(self, text: str) -> str:
        """Return the pattern of an action behind which a reply may run on: none of tags, the first of which counts."""
        opening, closing = self.answer_tags
        if isinstance(self.written, LabelProtocol):
            return re.escape(self.written.label)
        if isinstance(self.written, MarkedAnswerProtocol):  # and no heading
            return re.escape(self.written.mark) + r"(?![ \t]*\d{1,2}[.):][ \t]+[^\W\d])[^\n\d#]{0,40}\d"
        open_answer = re.escape(opening) if closing and closing not in text else r"\Z"
        return rf"</tool_call>|\\(?:boxed|fbox)\b|{open_answer}" if self.tools else open_answer

    def _tolerate(self, episode: Episode, text: str) -> tuple[str, tuple[str, ...]]:
        """Return native calls made canonical, an event each, or a tag protocol's text less placeholders; others unchanged."""
        if self.tools:
            return canonical_calls(text, self.tools)
        if not isinstance(self.written, TagProtocol):
            return text, ()
        plain = without_placeholders(text, (*self.written.tools, self.answer_tags[0][1:-1]))
        return (text, ()) if plain == text else (plain, (f"{TOLERATED} a placeholder of an instruction is no action",))

    def _advance(self, episode: Episode, action: Any) -> Outcome:
        """Play a legal action: return the outcome, with the next state. Each family overrides it."""
        raise NotImplementedError(f"{type(self).__name__} must override _advance(episode, action)")


def _with_reason(outcome: Outcome, reason: str, better: str) -> Outcome:
    """Put a better reason for a missing action in an outcome's parsed, first observation and events; return it, changed."""
    first, *others = outcome.observation or (Message("user", f"Your turn held no action: {reason}.", "environment"),)
    outcome.parsed = Malformed(better)
    outcome.observation = (replace(first, content=first.content.replace(reason, better)), *others)
    outcome.events = tuple(event.replace(reason, better) for event in outcome.events)
    return outcome
