"""`conversation_view` shows both sides of an episode for the pages of finished runs.

It holds words, calls, what they changed, and what the end was compared with. Changes are found by executing the
conversation's calls anew from the start of the task. Of what a task expects nothing is shown before the episode is over.
"""

import json
import re
from collections.abc import Iterable, Iterator

from agent_envs.base.dialects import outside_thoughts
from agent_envs.base.errors import UsageError
from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import Call, Malformed, Say, is_too_deep
from agent_envs.base.serialization import canonical_json
from agent_envs.core.conversation_view import ConversationView, Participant, ViewCheck, ViewEntry
from agent_envs.core.env import TurnEnv
from agent_envs.core.trajectory import Turn
from agent_envs.envs.tau2.dialogue import Dialogue, Line, ToolReply, arguments_of, arguments_text
from agent_envs.envs.tau2.env import Tau2Env
from agent_envs.envs.tau2.evaluation import NL_ASSERTION, evaluate
from agent_envs.envs.tau2.scoring import score_of
from agent_envs.envs.tau2.state_diff import Difference, differences
from agent_envs.envs.tau2.task_schema import Criteria, Tau2Task, tau2_task
from agent_envs.envs.tau2.task_states import expected_world, initial_world
from agent_envs.envs.tau2.toolkit import FRESH, Domain, DomainState, call

AGENT, CUSTOMER = "agent", "customer"
MOST_MEMBERS = 40  # of a record that are told
MOST_CHECKS = 100  # of a kind
_CALLS = re.compile(r"<tool_call>.*?(?:</tool_call>|\Z)", re.DOTALL)
_NAMES = {"assistant": AGENT, "user": CUSTOMER}
_FACTS = {"official": "official reward", "without_nl": "reward without the judged part", "ended": "ended by"}


def conversation_view(env: TurnEnv) -> ConversationView:
    """Return both sides of the episode so far; facts and checks only once it is over."""
    core = env.unwrapped
    assert isinstance(core, Tau2Env)
    builder = _ViewBuilder(core)
    over = core.episode.over
    return ConversationView(
        _sides(core),
        tuple(sorted(builder.entries(), key=lambda entry: entry.turn)),
        _facts(core.episode.turns[-1]) if over else (),
        tuple(builder.checks()) if over else (),
    )


def _sides(core: Tau2Env) -> tuple[Participant, ...]:
    """Return the participants, each with who plays it; in solo mode the agent alone."""
    if core.rules.solo:
        return (Participant(AGENT, "played by the policy, with the tools of both sides"),)
    partner = "" if core.partner is None else f"simulated: {core.partner.name}"
    notes: dict[str, str] = {core.face.side: "played by the policy"}
    return tuple(Participant(name, notes.get(side, partner)) for side, name in _NAMES.items())


def _facts(last: Turn) -> tuple[tuple[str, str], ...]:
    """Return the names and values of the last turn's score, those of the basis with "(counts)"."""
    score = score_of(last)
    names = {name: f"{name.rstrip('*')} (counts)" if name.endswith("*") else name for name in score} | _FACTS
    return tuple((names[name], value) for name, value in score.items())


class _ViewBuilder:
    """Builds the entries and the checks of one episode's view."""

    def __init__(self, core: Tau2Env) -> None:
        """Take an episode; the criteria are read once it is over, and the world that they expect is computed."""
        self.core, self.episode = core, core.episode
        self.domain: Domain = core.rules.domain
        self.dialogue: Dialogue = core.episode.state
        self.public: Tau2Task = core.opened(core.episode.task)[0]
        self.start = initial_world(self.domain, self.public)
        self.full = self._full_task() if core.episode.over else None
        criteria = self.criteria = self.full.criteria if self.full is not None else None
        # A task that expects nothing of the databases accepts every one of them.
        free = criteria is None or (criteria.actions is None and criteria.env_assertions is None)
        self.expected = None if free or self.full is None else expected_world(self.domain, self.full)

    def _full_task(self) -> Tau2Task | None:
        """Return the task with its criteria; None where those cannot be read (UsageError swallowed)."""
        try:
            return tau2_task(self.episode.task, self.core.domain)
        except UsageError:
            return None

    def entries(self) -> Iterator[ViewEntry]:
        """Yield the entries by kind: opening, raw turns, words, calls and what they changed, and, once over, the ending."""
        yield from self._opening()
        for policy_turn in self.episode.turns:
            yield from self._raw_turn(policy_turn)
        world, before = self.start, len(self.public.history)
        for place, (line, turn) in enumerate(zip(self.dialogue.lines, self._turns(), strict=True)):
            answers = self.dialogue.lines[place + 1 : place + 2]
            yield from self._words(line, turn)
            for tool_call, reply in zip(line.calls, answers[0].results if answers else (), strict=False):
                yield from self._call(tool_call, reply, turn)
                if place >= before:
                    after = call(self.domain, world, reply.requestor, tool_call.name, arguments_of(tool_call),
                                 self.core.rules.solo)[1]  # fmt: skip
                    yield from self._changes(world, after, _NAMES[reply.requestor], turn)
                    world = after
        if self.episode.over:
            yield from self._ending()

    def _opening(self) -> Iterator[ViewEntry]:
        """Yield notes on the customer's scenario, the task's changes beforehand and its first messages, where it has any."""
        if self.core.face.side == "assistant" and not self.core.rules.solo:
            yield ViewEntry(CUSTOMER, "note", "Scenario, which only the customer knows", self.public.scenario)
        changed = _group_by_record(differences(self.domain, FRESH, self.start))
        if changed:
            text = "\n".join(f"{record} {line}" for record, diffs in changed.items() for line in _lines(diffs))
            yield ViewEntry("", "note", "What the task changed in the databases beforehand", text)
        if self.public.history:
            yield ViewEntry("", "note", f"The first {len(self.public.history)} messages come with the task.")

    def _raw_turn(self, turn: Turn) -> Iterator[ViewEntry]:
        """Yield a note of a turn's raw text where it could not be read, or holds more than its words and calls."""
        parsed, text = turn.parsed, str(turn.action)
        participant = _NAMES[self.core.face.side]
        if isinstance(parsed, Malformed):
            yield ViewEntry(participant, "note", "A turn that could not be read", text or "(nothing)", True, turn.index)
            return
        if isinstance(parsed, Call):
            beside = (
                _CALLS.sub("", text)
                if "<tool_call>" in text
                else text.strip().removesuffix(outside_thoughts(text)[0].strip())
            )
        else:
            beside = text.strip().removesuffix(parsed.text if isinstance(parsed, Say) else "")
        if beside.strip():
            yield ViewEntry(participant, "note", "The turn as it was written", text, turn=turn.index)

    def _turns(self) -> list[int]:
        """Return the policy turn's number for each line; 0 for lines before the policy's first turn."""
        indices = [turn.index for turn in self.episode.turns if not isinstance(turn.parsed, Malformed)]
        own = [line.sender == self.core.face.side for line in self.dialogue.lines]
        before = sum(own) - len(indices)  # greeting and history
        turns, spoken = [], 0
        for mine in own:
            spoken += mine
            turns.append(indices[spoken - before - 1] if spoken > before else 0)
        return turns

    def _words(self, line: Line, turn: int) -> Iterator[ViewEntry]:
        """Yield a line's words as an entry, those beside calls marked as said to nobody; none for no words, or results."""
        if line.text and line.sender != "environment":
            odd = "said to nobody, as it stands beside a call" if line.calls else ""
            yield ViewEntry(_NAMES[line.sender], "words", odd, line.text, turn=turn)

    def _call(self, tool_call: ToolCall, reply: ToolReply, turn: int) -> Iterator[ViewEntry]:
        """Yield two entries, a tool's call and its result, under the name of the side that called."""
        participant = _NAMES[reply.requestor]
        yield ViewEntry(participant, "call", tool_call.name, arguments_text(tool_call.arguments), reply.error, turn)
        yield ViewEntry(participant, "result", tool_call.name, _lay_out(reply.content), reply.error, turn)

    def _changes(self, before: DomainState, after: DomainState, participant: str, turn: int) -> Iterator[ViewEntry]:
        """Yield an entry for each record that a call changed, with a mark."""
        for record, diffs in _group_by_record(differences(self.domain, before, after)).items():
            text = "\n".join(_lines(diffs))
            yield ViewEntry(participant, "change", record, text, turn=turn, mark=self._mark(diffs))

    def _mark(self, diffs: list[Difference]) -> str:
        """Return the number of differences that are expected ones, as "as expected" or "2 of 3 as expected"; "" for none."""
        if self.expected is None:
            return ""
        fit = sum(item.stands_in(self.domain, self.expected) for item in diffs)
        return "" if not fit else "as expected" if fit == len(diffs) else f"{fit} of {len(diffs)} as expected"

    def _ending(self) -> Iterator[ViewEntry]:
        """Yield the notes on the score of the last turn."""
        last = self.episode.turns[-1]
        for text in _notes(last):
            yield ViewEntry("", "note", "", text[:1].upper() + text[1:] + ".", turn=last.index)

    def checks(self) -> Iterator[ViewCheck]:
        """Yield the checks of an ended episode: database, actions, assertions, facts; one "not known" without criteria."""
        if self.full is None or self.criteria is None:
            yield ViewCheck("Criteria", "the task has none that can be read", "not known", None)
        else:
            yield from self._db_checks("DB" in self.criteria.basis)
            yield from self._judge(self.full, self.criteria, score_of(self.episode.turns[-1]).get(f"{NL_ASSERTION}*"))

    def _db_checks(self, counts: bool) -> Iterator[ViewCheck]:
        """Yield checks of each expected change of the databases and each other change; `counts` if they do; none if unknown."""
        world, expected = self.dialogue.world, self.expected
        if expected is None:
            return
        goals, changes = (differences(self.domain, self.start, state) for state in (expected, world))
        standing = ((f"{item.record} {item.text}", item.stands_in(self.domain, world)) for item in goals)
        reached = ((text, "reached" if holds else "not reached", holds) for text, holds in standing)
        yield from _view_checks("Expected changes", "DB", counts, reached)
        beside = (item for item in changes if not item.stands_in(self.domain, expected))
        others = ((f"{item.record} {item.text}", "not expected", False) for item in beside)
        yield from _view_checks("Other changes", "DB", counts, others)

    def _judge(self, full: Tau2Task, criteria: Criteria, grade: str | None) -> Iterator[ViewCheck]:
        """Yield checks of assertions, actions, facts told and expectations in words, the last by the recorded grade."""
        checks = evaluate(self.domain, full, self.dialogue.lines, self.dialogue.ended, self.core.rules.solo).checks
        actions = [f"{_NAMES[a.requestor]}: {a.name}({arguments_text(a.arguments)})" for a in criteria.actions or ()]
        assertions = [
            f"{_NAMES[a.side]}: {a.name}({arguments_text(a.arguments)}) = {canonical_json(a.expected)}"
            for a in criteria.env_assertions or ()
        ]
        for heading, component, texts, words in (
            ("Assertions", "ENV_ASSERTION", assertions, ("holds", "does not hold")),
            ("Expected actions", "ACTION", actions, ("made", "not made")),
            ("To be told", "COMMUNICATE", list(criteria.communicate_info), ("told", "not told")),
        ):
            verdicts = ((text, words[not holds], holds) for text, holds in zip(texts, checks[component], strict=True))
            yield from _view_checks(heading, component, component in criteria.basis, verdicts)
        verdict = {"1": "met", "0": "not all met"}.get(grade or "", "not judged")
        is_met = {"met": True, "not all met": False}.get(verdict)
        judgements = ((text, verdict, is_met) for text in criteria.nl_assertions)
        yield from _view_checks("Expected in words", NL_ASSERTION, NL_ASSERTION in criteria.basis, judgements)


def _notes(last: Turn) -> list[str]:
    """Return the notes that the score came with."""
    return [text for result in last.results if not result.call_id for text in result.content.split("\n") if text]


def _view_checks(
    heading: str, component: str, counts: bool, rows: Iterable[tuple[str, str, bool | None]]
) -> list[ViewCheck]:
    """Return a check for each row (text, verdict, holds), its verdict None unless it counts; beyond MOST_CHECKS one in all."""
    group = f"{heading} ({component}, {'counts' if counts else 'does not count here'})"
    checks = [ViewCheck(group, text, verdict, holds if counts else None) for text, verdict, holds in rows]
    left = len(checks) - MOST_CHECKS
    return checks if left <= 0 else [*checks[:MOST_CHECKS], ViewCheck(group, f"{left:,} more", "left out", None)]


def _group_by_record(diffs: tuple[Difference, ...]) -> dict[str, list[Difference]]:
    """Return the differences of each record, in the order in which the records come first."""
    records: dict[str, list[Difference]] = {}
    for item in diffs:
        records.setdefault(item.record, []).append(item)
    return records


def _lines(diffs: list[Difference]) -> list[str]:
    """Return the first MOST_MEMBERS differences' texts, and a line on how many more there are, if any."""
    left = len(diffs) - MOST_MEMBERS
    return [item.text for item in diffs[:MOST_MEMBERS]] + ([f"and {left:,} more"] if left > 0 else [])


def _lay_out(content: str) -> str:
    """Return a JSON result with a line for each member; unchanged where it is no JSON or would grow too much."""
    if content[:1] not in ("{", "[") or is_too_deep(content):
        return content
    try:
        spread = json.dumps(json.loads(content), indent=2, ensure_ascii=False)
    except ValueError:
        return content
    return spread if len(spread) < 4 * len(content) + 1_000 else content
