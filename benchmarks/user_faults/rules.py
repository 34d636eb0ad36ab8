"""`user_faults` finds in a finished conversation what the user did that its scenario does not cover.

Made to be silent on honest users: where words could be read either way, they are no fault. A fault says that the user, not
the agent, may be why an episode failed; it is reported apart from the agent and never changes a score.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from agent_envs.envs.tau2.dialogue import Line
from agent_envs.envs.tau2.task_schema import Tau2Task
from agent_envs.envs.tau2.toolkit import Domain
from agent_envs.envs.tau2.turn_taking import USER_STOPS
from agent_envs.envs.tau2.user_script import UserScript
from agent_envs.envs.tau2.users.comparing import Proposal
from agent_envs.envs.tau2.users.deciding import decided
from agent_envs.envs.tau2.users.persona import PERSONAS, persona_of
from agent_envs.envs.tau2.users.scenario import script_of
from agent_envs.envs.tau2.users.shelf import shelf_of
from agent_envs.envs.tau2.users.understanding import understood
from benchmarks.user_faults.claims import LONGEST, Known, claims
from benchmarks.user_faults.device_claims import refers, unasked, ungrounded
from benchmarks.user_faults.endings import early, unwarranted

KINDS = (
    "invented", "stopped_early", "unwarranted_transfer", "unasked_action", "ungrounded", "looped", "role_swapped",
    "agreed_to_unwanted",
)  # fmt: skip
MOST = 50  # faults of one conversation
_LOOP, _LOOP_WORDS = 3, 5
_DONE = r"(?:cancell?ed|processed|updated|refunded|exchanged|booked|modified|issued|changed)"
_YOURS = r"your (?:full |order |user |e-?mail|zip|reservation |phone |date of birth|account |postal |customer )"
_SWAPPED = re.compile(
    r"\bhow (?:can|may) i (?:help|assist) you\b|\b(?:anything|something) else (?:that )?i can (?:help|assist|do for)\b"
    r"|\bi(?:'d| would) be (?:happy|glad) to (?:help|assist) you\b|\blet me look (?:that|this|it) up for you\b"
    r"|\bi(?:'ll| will| can| am going to) (?:help|assist) you with\b|\bthank you for (?:contacting|calling|reaching out)\b"
    rf"|\bi(?:'ve| have)(?: now| successfully| just)* {_DONE}(?: \w+){{0,3}} your (?!e-?mail|message|request)\b"
    r"|\byour (?:order|reservation|booking|refund|return|exchange|account|flight|line|plan)(?: \S+)? (?:has|have) been"
    rf" (?:successfully )?{_DONE}\b|\bplease (?:provide|share|confirm|verify) {_YOURS}"
    rf"|\b(?:could|can|would|may) (?:you|i) (?:please )?(?:provide|have|share|confirm|verify)(?: me)?(?: with)? {_YOURS}"
    r"|\bas an ai\b|\b(?:i'm|i am) an? (?:ai|language model|virtual assistant|customer service)\b"
)
_WAITS = re.compile(
    r"\b(?:moment|minute|second|wait|hold on|look (?:that|it|this) up|let me (?:find|check|look|see))\b"
)
_AGREES = re.compile(r"(?:yes|yeah|yep|sure|ok|okay|correct|of course|please do|go ahead)\b")
_YES = re.compile(r"(?:^|[.!?] )(?:Yes|Sure|Please do|Go ahead)\b")
_NAMED = re.compile(r"\b[Mm]y (?:full |last |first )?name is ([A-Z][\w'-]{1,30})(?: ([A-Z][\w'-]{1,30}))?")


@dataclass(frozen=True, slots=True)
class UserFault:
    """One thing that a user did beyond its scenario.

    Attributes:
        kind: one of `KINDS`.
        line: which line of the conversation, from 0.
        what: in words.
    """

    kind: str
    line: int
    what: str


def user_faults(
    task: Tau2Task, lines: Sequence[Line], ended: str, domain: Domain, persona: str | Mapping[str, Any] = "task"
) -> tuple[UserFault, ...]:
    """Return what a user did in a conversation that its scenario does not cover, in order.

    Args:
        task: what it was told, its structured facts and wants included where there are any.
        lines: all of the conversation, the task's history included.
        ended: why the conversation ended.
        domain: where it took place: its tools and its date.
        persona: its manners; of those that make mistakes, swapped digits are no invention.
    """
    found: dict[tuple[str, str], UserFault] = {}
    for fault in _faults(task, tuple(lines), ended, domain, _slips(task, persona)):
        found.setdefault((fault.kind, fault.what), fault)
        if len(found) == MOST:
            break
    return tuple(sorted(found.values(), key=lambda fault: fault.line))


def _faults(task: Tau2Task, lines: tuple[Line, ...], ended: str, domain: Domain, slips: bool) -> Iterator[UserFault]:
    yield from _said(task, lines, domain, slips)
    yield from _called(task, lines, domain)
    yield from _looped(lines)
    yield from _agreed(task, lines, domain)
    last = max((place for place, line in enumerate(lines) if line.sender == "user"), default=0)
    if ended != "user_stop" or not lines or lines[last].calls:
        return
    if unwarranted(lines, last):
        yield UserFault("unwarranted_transfer", last, "gives itself up to a transfer that nobody spoke of")
    else:
        for why in early(task, lines, last):
            yield UserFault("stopped_early", last, why)


def _slips(task: Tau2Task, persona: str | Mapping[str, Any]) -> bool:
    if isinstance(persona, str) and persona not in ("task", *PERSONAS):
        return False
    own = task.script.persona if task.script is not None and task.script.persona in PERSONAS else "plain"
    return persona_of(persona, own).mistakes > 0


def _said(task: Tau2Task, lines: tuple[Line, ...], domain: Domain, slips: bool) -> Iterator[UserFault]:
    """Yield the faults of single messages, each held against all that the user could know by then."""
    known = Known()
    known.take(task.scenario, task.ticket, domain.now, *_script_texts(task.script))
    start = _begins(task, lines)
    for place, line in enumerate(lines):
        if line.sender == "user" and not line.calls and place >= start:
            yield from (UserFault(kind, place, what) for kind, what in _of_message(line.text, known, slips))
            if domain.user is not None:
                for what in ungrounded(line.text, task.scenario, lines[:place]):
                    yield UserFault("ungrounded", place, f"says {_short(what)!r}, and no tool of it did or showed that")
        elif line.sender == "assistant" and not line.calls:
            known.take(line.text)
        elif place < start:
            known.take(line.text)
        known.take(*(reply.content for reply in line.results if reply.requestor == "user"))


def _of_message(text: str, known: Known, slips: bool) -> Iterator[tuple[str, str]]:
    text = _without_stops(text)
    for claim in claims(text):
        if not known.holds(claim, slips):
            yield "invented", f"the {claim.kind} {_short(claim.shown)} stands nowhere before"
    named = _NAMED.search(text[:LONGEST])
    if named is not None and not any(name.lower() in known.words for name in named.groups() if name):
        yield "invented", f"the name {_short(' '.join(filter(None, named.groups())))} stands nowhere before"
    swapped = _SWAPPED.search(text[:LONGEST].lower().replace("\u2019", "'"))
    if swapped is not None:
        yield "role_swapped", f"speaks as an agent would: {_short(swapped[0])!r}"


def _called(task: Tau2Task, lines: tuple[Line, ...], domain: Domain) -> Iterator[UserFault]:
    tools = domain.user.tools if domain.user is not None else {}
    words: list[str] = []
    read, asked = dict[str, int](), set[str]()  # of a tool: how many of the words ask for it in vain; who was asked for
    told = ""
    for place, line in enumerate(lines):
        if line.sender == "assistant" and not line.calls:
            words.append(line.text)
            if refers(line.text):  # "turn it off": what the user has just told of
                words.append(told)
        if line.sender == "user" and not line.calls:
            told = line.text
        if line.sender != "user" or place < _begins(task, lines):
            continue
        writes = [call.name for call in line.calls if call.name in tools and tools[call.name].writes]
        for name in dict.fromkeys(writes):
            if name in asked:
                continue
            if any(unasked((name,), words[read.get(name, 0) :])):
                read[name] = len(words)
                yield UserFault("unasked_action", place, f"uses {name}, which nobody asked for")
            else:
                asked.add(name)  # words are only added, so it stays so


def _looped(lines: tuple[Line, ...]) -> Iterator[UserFault]:
    """Yield the message with which a user says the same for the third time running, though the agent said something new."""
    run: list[tuple[str, str]] = []
    agent = ""
    for place, line in enumerate(lines):
        if line.calls or line.sender == "environment":
            continue
        if line.sender == "assistant":
            agent = _plain(line.text)
            continue
        said = _plain(line.text)
        run = [*run, (said, agent)] if run and run[-1][0] == said else [(said, agent)]
        new = len({heard for _, heard in run}) == len(run)
        if _AGREES.match(said):  # to one proposal after the other
            continue
        if len(run) == _LOOP and new and len(said.split()) >= _LOOP_WORDS and not _WAITS.search(said):
            yield UserFault("looped", place, f"says the same for the third time running: {_short(line.text)!r}")


def _agreed(task: Tau2Task, lines: tuple[Line, ...], domain: Domain) -> Iterator[UserFault]:
    """Yield each yes to a proposal that no want of the scenario has."""
    spoken = [(place, line) for place, line in enumerate(lines) if line.text and not line.calls]
    script, shelf = task.script or script_of(task), shelf_of(domain.agent_database)
    before = ""
    for (_, agent), (place, user) in pairwise(spoken):
        if (agent.sender, user.sender) != ("assistant", "user") or place < _begins(task, lines):
            continue
        heard = understood(agent.text)
        agrees = _AGREES.match(_plain(_without_stops(user.text))) or _YES.search(user.text[:LONGEST])
        proposal = Proposal(heard.awaiting, heard.told, before, heard.ids, heard.names, shelf)
        before = agent.text[-LONGEST:].lower()
        if agrees and heard.awaiting and not (heard.completes or heard.offers_transfer):
            if decided(script, tuple(range(len(script.wants))), proposal).verdict == "no":
                yield UserFault("agreed_to_unwanted", place, f"says yes to {_short(heard.awaiting[0])!r}")


def _begins(task: Tau2Task, lines: tuple[Line, ...]) -> int:
    """Return where the conversation that this user leads begins: behind what the task itself tells of one."""
    past = len(task.history)
    return past if lines[:past] == task.history else 0


def _script_texts(script: UserScript | None) -> Iterator[str]:
    if script is None:
        return
    for want in script.wants:
        yield from (want.say, want.objection, *want.declines, *want.signs)
        yield from (part for fact in want.facts for part in (fact.say, fact.value))
    yield from (part for fact in script.facts for part in (fact.say, fact.value))


def _without_stops(text: str) -> str:
    for stop in USER_STOPS:
        text = text.replace(stop, " ")
    return text


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", text[:LONGEST].lower()))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 100 else f"{text[:100]}..."
