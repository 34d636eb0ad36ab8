"""`script_of` makes a scripted user's script of a published task's prose.

What a scenario says about who the customer is becomes facts; its wishes become wants, in order; sentences that say more
become facts by topic; what is asked for only after a refusal stands apart; direction to an actor is left out.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from agent_envs.envs.tau2.task_schema import Instructions, Tau2Task
from agent_envs.envs.tau2.user_script import TOPICS, Check, Fact, UserScript, Want
from agent_envs.envs.tau2.users.agent_words import words
from agent_envs.envs.tau2.users.prose import LONGEST, SCENARIO, Statement, statements_in
from agent_envs.envs.tau2.users.telling import IDENTITY

# How values look and are told; stems of a wish, and the word by which the customer knows that it was granted.
_VALUES, _SIGNS, _PLAN_CHANGES = SCENARIO["values"], SCENARIO["signs"], tuple(SCENARIO["plan changes"])
_WORDS = {
    domain: {topic: words(f"{domain} {topic}", "scenario_words.txt") for topic in topics.split()}
    for domain, topics in SCENARIO["topics"].items()
}
_IDS = {topic: re.compile(pattern) for topic, pattern in SCENARIO["ids"].items()}
_LIVES = re.compile(r"(?:live|living|residing|from|located) (?:in |at )?((?:\d+ )?[A-Z][^.]*?)(?:, and\b|\.|$)")
_INSISTS = re.compile(r"insist|persist|not take no|demand", re.IGNORECASE)
_STEM = re.compile(rf"\b({'|'.join(_SIGNS)})(?!ress|ing code|ed by)(?! (?:flight|trip)s?\b)", re.IGNORECASE)
_NEXT = re.compile(
    r"^(?:\w+ ){0,2}?(?:also|then|finally|lastly|next|addition|after(?:wards| this| that))\b", re.IGNORECASE
)
_IDENTIFIES = re.compile(r"^(?:I am (?!currently)|My (?:name|user id|e-?mail)\b)|@", re.IGNORECASE)
_DEED = re.compile(
    r"\b(?:cancel|return|exchang|modif|chang|switch|book|upgrad|downgrad|remov|add|updat|buy|order|refund|swap|replac|send|move|"
    r"moving|push|fly|compensat|correct|reorder|resum|activat|deliver|pay)\w*\b",
    re.IGNORECASE,
)
_NO_CHANGE = "I do not want to change my mobile data plan."
_NO_PLAN = re.compile(r"not want to change (?:your|my) (?:mobile data |data )?plan", re.IGNORECASE)


def script_of(task: Tau2Task) -> UserScript:
    """Derive a scripted user's script from a task's prose, read sentence by sentence; at least one want."""
    instructions = task.instructions
    if isinstance(instructions, str):
        instructions = Instructions(task.domain, instructions, instructions, None, "")
    info = (instructions.known_info or "")[:LONGEST]
    reason, extra = statements_in(instructions.reason_for_call), statements_in(instructions.task_instructions)
    about = _about(info)
    spoken = [part.text for part in (*reason, *extra) if part.kind in ("want", "detail", "alternative")]
    facts = (
        *_identity(info, f"{instructions.reason_for_call[:LONGEST]}\n{instructions.task_instructions[:LONGEST]}"),
        *_details(task.domain, [*about, *spoken]),
    )
    wants = _phone_wants(instructions) if task.domain == "telecom" else _wants(task.domain, reason, extra, about)
    unknown = [part for part in (*reason, *extra) if part.kind == "unknown"]
    topics = _unknown_topics([*statements_in(instructions.unknown_info or ""), *unknown], facts)
    return UserScript(facts, wants, topics, _persona(f"{task.persona}\n{instructions.task_instructions}"))


# Who the customer is


def _identity(info: str, prose: str) -> tuple[Fact, ...]:
    """Return the facts of identity: name, zip code and phone from known facts alone, other numbers from all prose."""
    facts = []
    for topic, (pattern, sentence) in _VALUES.items():
        text = info if topic in ("name", "zip", "phone") else f"{info}\n{prose}"
        values = list(dict.fromkeys(re.findall(pattern, text)))
        if values:
            form = sentence if len(values) == 1 else sentence.replace(" is ", " is one of these: ")
            facts.append(Fact(topic, form.format(" or ".join(values)), values[0]))
    return tuple(facts)


def _about(info: str) -> list[str]:
    """Return the customer's home, and what its scenario tells beside hidden directions and facts of identity."""
    lives = [f"I live in {place}." for place in _LIVES.findall(info)]
    others = (part.text for part in statements_in(info) if part.kind != "hidden")
    return [*lives, *(text for text in others if not _IDENTIFIES.search(text))]


# What it wants


def _wants(
    domain: str, reason: Sequence[Statement], extra: Sequence[Statement], about: Sequence[str]
) -> tuple[Want, ...]:
    """Return the wants, each with what is said of it and the facts that concern it, its alternatives right behind it."""
    groups = _groups(reason, extra)
    insists = 2 if _INSISTS.search(" ".join(part.text for part in (*reason, *extra))) else 1
    wants = []
    for group in groups:
        own = _details(domain, [group.say, *group.more])
        topics = {fact.topic for fact in own}
        facts = tuple(fact for fact in _details(domain, [group.say, *group.more, *about]) if fact.topic in topics)
        wants.append(_want(group.say, facts, insists))
        wants += [_want(other, _details(domain, [other]), 0, True) for other in group.others]
    return tuple(wants)


def _groups(reason: Sequence[Statement], extra: Sequence[Statement]) -> list["_Group"]:
    """Return the wishes, one at least, with the sentences that follow; what comes before the first is put before it."""
    groups: list[_Group] = []
    story: list[str] = []
    for part in (*reason, *extra):
        if part.kind == "want" and _begins(groups, part, part in reason):
            groups.append(_Group(part.text))
        elif part.kind in ("want", "detail") and groups:
            groups[-1].more.append(part.text)
        elif part.kind in ("want", "detail"):
            story.append(part.text)
        elif part.kind == "alternative" and groups:
            groups[-1].others.append(part.text)
    if not groups:
        return [_Group(" ".join(story) or "I need help with my account.")]
    groups[0].say = " ".join([*story, groups[0].say])
    return groups


@dataclass(slots=True)
class _Group:
    """A wish, what is said of it besides, and what is asked for where it is refused."""

    say: str
    more: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


def _begins(groups: Sequence[_Group], part: Statement, of_reason: bool) -> bool:
    """Return whether a wish begins a new want: the first of the reason or with a deed, later one with new deeds or "next"."""
    if not groups:
        return of_reason or bool(_DEED.search(part.text))
    stems = {stem.lower() for stem in _STEM.findall(part.text)}
    new = not stems <= {stem.lower() for stem in _STEM.findall(groups[-1].say)} or not stems
    return bool(_NEXT.search(part.text)) if not of_reason else new or bool(_NEXT.search(part.text))


def _want(say: str, facts: tuple[Fact, ...], insists: int, only_if_refused: bool = False) -> Want:
    """Return a want with the signs that its words stand for; a question where they have neither signs nor a deed."""
    stems = dict.fromkeys(stem.lower() for stem in _STEM.findall(say))
    signs = tuple(dict.fromkeys(_SIGNS[stem] for stem in stems))
    question = not (signs or _DEED.search(say))
    return Want(say, facts, signs, question, only_if_refused, insists)


def _phone_wants(instructions: Instructions) -> tuple[Want, ...]:
    """Return a want for each kind of trouble with a phone, with the look that shows it gone; one without a look if none."""
    spoken = [part.text for part in statements_in(instructions.reason_for_call) if part.kind != "hidden"]
    reason = " ".join(spoken) or "I need help with my phone."
    kinds = [row[1:] for row in SCENARIO["checks"] if re.search(row[0], instructions.reason_for_call, re.IGNORECASE)]
    declines, objection = (_PLAN_CHANGES, _NO_CHANGE) if _NO_PLAN.search(instructions.task_instructions) else ((), "")
    want = Want(reason, (Fact("problem", reason),), insists=1, declines=declines, objection=objection)
    wants = [
        replace(want, say=say if number else reason, check=Check(*check)) for number, (check, say) in enumerate(kinds)
    ]
    return tuple(wants) or (want,)


# What it can tell besides


def _details(domain: str, sentences: Iterable[str]) -> tuple[Fact, ...]:
    """Return a fact for each topic that sentences speak of: these joined, and the first id in them, if any."""
    sentences, facts = tuple(dict.fromkeys(sentences)), []
    for topic, pattern in _WORDS.get(domain, {}).items():
        matches = [sentence for sentence in sentences if pattern.search(sentence)]
        if matches:
            ids = _IDS[topic].findall(" ".join(matches)) if topic in _IDS else []
            facts.append(Fact(topic, " ".join(matches), ids[0] if ids else ""))
    return tuple(facts)


def _unknown_topics(sentences: Sequence[Statement], facts: Sequence[Fact]) -> tuple[str, ...]:
    """Return the topics that the customer does not know: those it says so of, and identity without a fact."""
    text = " ".join(part.text for part in sentences).lower()
    own_topics = {fact.topic for fact in facts}
    mentions = {topic for topic, pattern in SCENARIO["unknown"].items() if re.search(pattern, text)}
    return tuple(topic for topic in TOPICS if topic not in own_topics and (topic in mentions or topic in IDENTITY))


def _persona(text: str) -> str:
    """Return the persona whose pattern first matches a text; "plain" where none does."""
    return next(
        (name for name, pattern in SCENARIO["personas"].items() if re.search(pattern, text, re.IGNORECASE)), "plain"
    )
