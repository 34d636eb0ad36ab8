"""A body of law is drafted as sections: all are numbered first, because provisions cite each other, then written."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from agent_envs.envs.legal_search.dates import WEEKDAYS, written_date
from agent_envs.envs.legal_search.library import Section
from agent_envs.envs.legal_search.statute_facts import CLASSES, OCCASIONS, SIZES, Amendment, Chapter, Law, Rule
from agent_envs.envs.legal_search.statute_parts import parts, quantity

_NOUNS = {"dollars": "sum", "percent": "share"}
_FILLERS = 3

Points: TypeAlias = list[tuple[str, list[str]]]
Body: TypeAlias = tuple[str, Points]
Numbered: TypeAlias = list[tuple[str, str, list[tuple[str, "Draft"]]]]


@dataclass(frozen=True, slots=True)
class Draft:
    """A section to be.

    Attributes:
        heading: its heading.
        write: gives its text and its paragraphs, as (text, texts of subparagraphs), once every id is known.
        note: is told its id.
    """

    heading: str
    write: Callable[[], Body]
    note: Callable[[str], None] = lambda section_id: None


def draft(rng: random.Random, law: Law) -> list[Section]:
    """Return the sections in reading order, and note in the law which of them provides what."""
    plan: list[tuple[str, list[tuple[str, list[Draft]]]]] = [("General provisions", _general(law))]
    titles = sorted({chapter.activity.title for chapter in law.chapters})
    rng.shuffle(titles)
    for title in titles:
        chapters = [chapter for chapter in law.chapters if chapter.activity.title == title]
        plan.append((title, [(chapter.activity.heading, _chapter(rng, chapter)) for chapter in chapters]))
    if law.acts:
        plan.append(("Amending Acts", [(f"Act of {written_date(day)}", _act(rules)) for day, rules in law.acts]))
    number = 0
    numbered: list[tuple[str, str, Numbered]] = []
    for heading, rows in plan:
        number += 1 if not number else rng.randint(1, 3)
        numbered.append((str(number), heading, list(_numbered(rng, number, law, rows))))
    return [section for row in numbered for section in _written(*row)]


def _numbered(
    rng: random.Random, title: int, law: Law, rows: list[tuple[str, list[Draft]]]
) -> Iterator[tuple[str, str, list[tuple[str, Draft]]]]:
    """Give every chapter and section of a title its number, with gaps as repeals leave them."""
    number = 0
    for heading, drafts in rows:
        number += rng.randint(1, 2)
        chapter_id, section = f"{title}:{number}", 100
        for chapter in law.chapters:
            if chapter.activity.heading == heading:
                chapter.id = chapter_id
        found = []
        for item in drafts:
            section += rng.randint(1, 4)
            section_id = f"{chapter_id}-{section}"
            item.note(section_id)
            found.append((section_id, item))
        yield chapter_id, heading, found


def _written(title: str, heading: str, chapters: Numbered) -> Iterator[Section]:
    yield Section(title, "", tuple(row[0] for row in chapters), "title", title, heading, "")
    for chapter, name, drafts in chapters:
        number = chapter.partition(":")[2]
        yield Section(chapter, title, tuple(row[0] for row in drafts), "chapter", number, name, "")
        for section_id, item in drafts:
            text, paragraphs = item.write()
            letters = [f"({chr(ord('a') + place)})" for place in range(len(paragraphs))]
            children = tuple(f"{section_id}:{letter}" for letter in letters)
            yield Section(section_id, chapter, children, "section", section_id, item.heading, text)
            for letter, child, (own, points) in zip(letters, children, paragraphs, strict=True):
                below = tuple(f"{child}({place})" for place in range(1, len(points) + 1))
                yield Section(child, section_id, below, "paragraph", letter, "", own)
                for place, (point, words) in enumerate(zip(below, points, strict=True), start=1):
                    yield Section(point, child, (), "subparagraph", f"({place})", "", words)


def _plain(heading: str, text: str) -> Draft:
    return Draft(heading, lambda: (text, []))


def _noted(owner: object, name: str, heading: str, write: Callable[[], Body]) -> Draft:
    return Draft(heading, write, lambda section_id: setattr(owner, name, section_id))


def _general(law: Law) -> list[tuple[str, list[Draft]]]:
    rests = " or a ".join(WEEKDAYS[day] for day in law.rest_days)
    counted = "is counted as its first day" if law.counts_first_day else "is not counted"
    counting = (
        f"In a period of days under this code, the day of the event from which it runs {counted}; a period that would end on "
        f"a {rests} ends on the next day that is none."
    )
    post = f"A document sent by post is received, whatever its bearer says, {law.post_days} days after it was posted."
    unit = f"Where a fee is stated in units, one unit is {quantity(law.unit, 'dollars')}."
    late = f"A fee paid after the day on which it falls due is increased by {law.late_percent} percent."
    scale: Body = (
        "The highest fine is:",
        [(f"for an offence of class {name}, ${fine:,}", []) for name, fine in zip(CLASSES, law.scale, strict=True)],
    )
    again = (
        f"A person who commits the same offence again within {law.repeat_years} years is liable to the fine of its class "
        f"increased by {law.repeat_percent} percent."
    )
    other = [_plain(heading, text.format(name=law.name)) for heading, text in parts().general]
    money = [
        _noted(law, "unit_id", "Units", lambda: (unit, [])),
        _noted(law, "late_id", "Late payment", lambda: (late, [])),
        _noted(law, "scale_id", "Scale of fines", lambda: scale),
        _noted(law, "repeat_id", "Repeated offences", lambda: (again, [])),
    ]
    time = [
        _noted(law, "counting_id", "Counting of periods", lambda: (counting, [])),
        _noted(law, "post_id", "Service by post", lambda: (post, [])),
    ]
    return [("Interpretation", other[:3]), ("Time and service", time), ("Money", money), ("Administration", other[3:])]


def _chapter(rng: random.Random, chapter: Chapter) -> list[Draft]:
    noun = chapter.activity.noun
    fillers = [_plain(heading, text.format(noun=noun)) for heading, text in rng.sample(parts().fillers, _FILLERS)]
    rules = [_rule(rng, rule) for rule in chapter.rules]
    reliefs = [_relief(rule) for rule in chapter.rules if rule.relief]
    rng.shuffle(reliefs)
    middle = [*rules, *fillers[1:]]
    rng.shuffle(middle)
    start = [
        fillers[0],
        _noted(chapter, "definitions_id", "Definitions", lambda: _definitions(chapter)),
        _noted(chapter, "fees_id", "Fees", lambda: _fees(chapter)),
    ]
    end = [_noted(chapter, "offences_id", "Offences", lambda: _offences(chapter))] if chapter.offences else []
    return [*start, *middle, *reliefs, *end]


def _definitions(chapter: Chapter) -> Body:
    noun, unit = chapter.activity.noun, chapter.activity.unit
    low, high = chapter.bounds
    bounds = (
        f"has fewer than {low} {unit}",
        f"has at least {low} but fewer than {high} {unit}",
        f"has {high} {unit} or more",
    )
    sizes: Points = [(f'"{size} {noun}" means one that {bound}', []) for size, bound in zip(SIZES, bounds, strict=True)]
    return "In this chapter:", [*sizes, (f'"{noun}" means {chapter.activity.means}', [])]


def _fees(chapter: Chapter) -> Body:
    noun = chapter.activity.noun
    paragraphs = []
    for occasion, name in enumerate(OCCASIONS):
        fees = [chapter.fees[occasion, size] for size in range(len(SIZES))]
        amounts = [f"{fee} units" if chapter.in_units else quantity(fee, "dollars") for fee in fees]
        points = [f"{size} {noun}: {amount}" for size, amount in zip(SIZES, amounts, strict=True)]
        paragraphs.append((f"for the {name} of a licence:", points))
    return "The following fees are payable:", paragraphs


def _rule(rng: random.Random, rule: Rule) -> Draft:
    wording = rng.choice(rule.kind.says)

    def write() -> Body:
        unit = rule.kind.unit
        value = quantity(rule.value, unit)
        if rule.target:
            value = f"the {_noun(rule)} named in § {rule.target.id}, increased by {_step(rule.delta, unit)},"
        text = wording.format(v=value).replace(",.", ".").replace(",,", ",")
        if rule.relief:
            text = f"Subject to § {rule.relief.id}, {text[0].lower()}{text[1:]}"
        if rule.amendment:
            text += f" [Amended by § {rule.amendment.id}.]"
        return text, []

    return _noted(rule, "id", rule.kind.heading, write)


def _step(delta: int, unit: str) -> str:
    """Return by how much an amount is changed; a percentage by points, as a percentage of it would be another amount."""
    return f"{delta} percentage points" if unit == "percent" else quantity(delta, unit)


def _noun(rule: Rule) -> str:
    return _NOUNS.get(rule.kind.unit, "period")


def _relief(rule: Rule) -> Draft:
    relief = rule.relief
    assert relief is not None
    holder = relief.group.noun if relief.group else f"the holder of a licence for a minor {rule.chapter.activity.noun}"
    heading = relief.group.heading if relief.group else "Minor businesses"
    change = f"{'increased' if relief.delta > 0 else 'reduced'} by {_step(abs(relief.delta), rule.kind.unit)}"

    def write() -> Body:
        return f"In its application to {holder}, the {_noun(rule)} named in § {rule.id} is {change}.", []

    return _noted(relief, "id", heading, write)


def _offences(chapter: Chapter) -> Body:
    rows: Points = [(f"a breach of § {rule.id} is an offence of class {name}", []) for rule, name in chapter.offences]
    return "Under this chapter:", rows


def _act(rules: list[Rule]) -> list[Draft]:
    pairs = [(rule, rule.amendment) for rule in rules if rule.amendment]
    return [
        _noted(amendment, "id", f"Amendment {place}", _substitution(rule, amendment))
        for place, (rule, amendment) in enumerate(pairs, start=1)
    ]


def _substitution(rule: Rule, amendment: Amendment) -> Callable[[], Body]:
    old, new = quantity(rule.value, rule.kind.unit), quantity(amendment.value, rule.kind.unit)
    return lambda: (
        f'In § {rule.id}, "{new}" is substituted for "{old}". The substitution has effect in matters that arise on or after '
        f"{written_date(amendment.since)}.",
        [],
    )
