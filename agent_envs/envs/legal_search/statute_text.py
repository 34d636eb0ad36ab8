"""The facts of a generated law are drafted as sections, each of lettered paragraphs of one sentence or two."""

import random
from dataclasses import dataclass

from agent_envs.envs.legal_search.dates import WEEKDAYS, written_date
from agent_envs.envs.legal_search.library import Section
from agent_envs.envs.legal_search.statute_facts import CLASSES, Chapter, Holder, Law, Rule
from agent_envs.envs.legal_search.statute_parts import difference, parts, quantity, with_article

_GENERAL = (
    1  # the title of what holds for all trades; the provinces' titles follow, then their registers and amendments
)
_NUMBERS = ("second", "third", "fourth", "fifth", "sixth")


@dataclass
class _Draft:
    """Sections as they are written, title by title; ids are given when a title is laid out."""

    rng: random.Random
    law: Law

    def __post_init__(self) -> None:
        self.sections: list[Section] = []

    def says(self, formula: str, **slots: object) -> str:
        """Return a sentence of the law in one of its forms."""
        nouns = {f"a_{name}": with_article(str(slots[name])) for name in ("noun", "size") if name in slots}
        text = self.rng.choice(parts().drafting[formula]).format(**slots, **nouns)
        return f"{text[0].upper()}{text[1:]}"

    def title(self, number: int, heading: str, chapters: list[tuple[str, list[tuple[str, str]]]]) -> None:
        """Add a title: chapters with their headings, and (heading, text) of the sections that `place` numbers."""
        ids = [f"{number}:{place}" for place in range(1, len(chapters) + 1)]
        self.sections.append(Section(str(number), "", tuple(ids), "title", str(number), heading, ""))
        for chapter_id, (name, rows) in zip(ids, chapters, strict=True):
            inside = tuple(section_id(chapter_id, place) for place in range(len(rows)))
            self.sections.append(Section(chapter_id, str(number), inside, "chapter", chapter_id, name, ""))
            for own, (heading_of_it, text) in zip(inside, rows, strict=True):
                self.sections.append(Section(own, chapter_id, (), "section", own, heading_of_it, text))


def section_id(chapter_id: str, place: int) -> str:
    """Return the id of a section, from place 0: "2:14-101"."""
    return f"{chapter_id}-{101 + place}"


def lettered(lines: list[str]) -> str:
    """Return sentences as lettered paragraphs, a line each."""
    return "\n".join(f"({chr(ord('a') + place)}) {line}" for place, line in enumerate(lines))


def draft(rng: random.Random, law: Law) -> list[Section]:
    """Give every part of a law its id, and return its sections in reading order."""
    _number(law)
    writer = _Draft(rng, law)
    count = len(law.provinces)
    writer.title(_GENERAL, "General provisions", _general_chapters(writer))
    for place, province in enumerate(law.provinces):
        chapters = [chapter for chapter in law.chapters if chapter.province == province]
        rows = [(chapter.trade.heading, _chapter_rows(writer, chapter)) for chapter in chapters]
        writer.title(_GENERAL + 1 + place, f"Trades of {province}", rows)
    for place, province in enumerate(law.provinces):
        chapters = [chapter for chapter in law.chapters if chapter.province == province]
        rows = [(f"Licences for {chapter.trade.heading.lower()}", _entries(writer, chapter)) for chapter in chapters]
        writer.title(_GENERAL + 1 + count + place, f"Register of {province}", rows)
    writer.title(_GENERAL + 1 + 2 * count, "Amendments", _amendments(writer))
    return writer.sections


def _number(law: Law) -> None:
    count = len(law.provinces)
    general = section_id(f"{_GENERAL}:1", 0).rpartition("-")[0]
    law.counting_id, law.post_id = (section_id(general, place) for place in range(2))
    law.scale_id, law.unit_id, law.repeat_id = (section_id(f"{_GENERAL}:2", place) for place in range(3))
    law.group_ids = {group.noun: section_id(f"{_GENERAL}:3", place) for place, group in enumerate(parts().groups)}
    for place, province in enumerate(law.provinces):
        chapters = [chapter for chapter in law.chapters if chapter.province == province]
        for number, chapter in enumerate(chapters, start=1):
            chapter.id = f"{_GENERAL + 1 + place}:{number}"
            chapter.definitions_id = section_id(chapter.id, 0)
            for row, rule in enumerate(chapter.rules, start=1):
                rule.id = section_id(chapter.id, row)
            for row, holder in enumerate(chapter.holders):
                holder.id = section_id(f"{_GENERAL + 1 + count + place}:{number}", row)
    for act, rules in enumerate(_acts(law), start=1):
        for row, rule in enumerate(rules):
            assert rule.amendment is not None
            rule.amendment.id = section_id(f"{_GENERAL + 1 + 2 * count}:{act}", row)


def _acts(law: Law) -> list[list[Rule]]:
    """Return the amended rules, those of one year together."""
    amended = [rule for rule in law.rules if rule.amendment]
    years = sorted({rule.amendment.since.year for rule in amended if rule.amendment})
    return [[rule for rule in amended if rule.amendment and rule.amendment.since.year == year] for year in years]


def _general_chapters(writer: _Draft) -> list[tuple[str, list[tuple[str, str]]]]:
    law, words = writer.law, parts().general
    first = writer.rng.choice(words["counting"][0 if law.counts_first_day else 1])
    days = " or a ".join(WEEKDAYS[day] for day in law.rest_days)
    counting = lettered([first, words["rest"].format(days=days)])
    post = lettered([words["post"][0].format(nth=_NUMBERS[law.post_days - 2]), words["post"][1]])
    scale = [words["scale"].format(name=name, units=units) for name, units in zip(CLASSES, law.scale, strict=True)]
    more = [words["major"], words["to_unit"].format(place=law.unit_id, repeat=law.repeat_id)]
    unit = words["unit"].format(v=f"${law.unit}", repeat=law.repeat_id)
    repeat = words["repeat"].format(years=law.repeat_years, percent=law.repeat_percent)
    groups = [(group.heading, lettered([writer.rng.choice(group.says), *group.unless])) for group in parts().groups]
    return [
        ("Time", [("Counting of periods", counting), ("Service by post", post)]),
        ("Fines", [("Scale of fines", lettered([*scale, *more])), ("Units", unit), ("Repeated offences", repeat)]),
        ("Kinds of holders", groups),
    ]


def _chapter_rows(writer: _Draft, chapter: Chapter) -> list[tuple[str, str]]:
    trade, (low, high) = chapter.trade, chapter.bounds
    lines = [
        writer.says("meaning", noun=trade.noun, means=trade.means),
        writer.says("minor", noun=trade.noun, low=low, unit=trade.unit),
        writer.says("major", noun=trade.noun, high=high, unit=trade.unit),
        writer.says("idle_in" if chapter.counts_idle else "idle_out", unit=trade.unit),
    ]
    rows = [("Definitions", lettered(lines))]
    return rows + [(rule.kind.heading, lettered(_rule_lines(writer, rule))) for rule in chapter.rules]


def _rule_lines(writer: _Draft, rule: Rule) -> list[str]:
    return [_paragraph(writer, rule, name) for name in rule.paragraphs]


def _paragraph(writer: _Draft, rule: Rule, name: str) -> str:
    """Return the sentence of one paragraph of a rule."""
    law = writer.law
    if name == "amount":
        return writer.rng.choice(rule.kind.says).format(v=_stated(rule))
    if name in rule.sizes:
        slots = {"size": name, "noun": rule.chapter.trade.noun, "place": rule.chapter.definitions_id}
        return writer.says("size", **slots, **_changed(rule, rule.sizes[name]))
    for group, change in rule.groups:
        if name == group.noun:
            slots = {"adjective": group.adjective, "place": law.group_ids[name]}
            return writer.says("group", **slots, **_changed(rule, change))
    for dated, row in (("early", rule.early), ("recent", rule.recent)):
        if name == dated and row:
            return writer.says(dated, day=written_date(row[0]), **_changed(rule, row[1]))
    if name == "limit":
        kind = "reductions" if rule.limits_reductions else "increases"
        return writer.says(kind, v=difference(rule.limit or 0, rule.kind.unit))
    if name == "amended" and rule.amendment:
        return writer.says("amended", place=rule.amendment.id)
    if name == "offence":
        return writer.says("offence", name=rule.offence, place=law.scale_id)
    return writer.says("counted", place=law.counting_id, post=law.post_id)


def _stated(rule: Rule) -> str:
    """Return the amount of paragraph (a), or how it differs from that of another rule."""
    if rule.target is None:
        return quantity(rule.value, rule.kind.unit)
    delta = rule.value - rule.target.value
    more = f"{difference(abs(delta), rule.kind.unit)} {'more' if delta > 0 else 'less'}"
    trade = rule.target.chapter.trade.heading.lower()
    return f"{more} than the {rule.kind.measure} that § {rule.target.id}(a) fixes for {trade}"


def _changed(rule: Rule, change: int) -> dict[str, str]:
    return {
        "measure": rule.kind.measure,
        "changed": "increased" if change > 0 else "reduced",
        "delta": difference(abs(change), rule.kind.unit),
    }


def _entries(writer: _Draft, chapter: Chapter) -> list[tuple[str, str]]:
    return [(holder.name, lettered(_entry_lines(writer, holder))) for holder in chapter.holders]


def _entry_lines(writer: _Draft, holder: Holder) -> list[str]:
    trade, (rule, value) = holder.chapter.trade, holder.special
    lines = [writer.says("carries", name=holder.name, noun=trade.noun, chapter=holder.chapter.id)]
    sized = "sized_idle" if holder.idle else "sized"
    lines.append(writer.says(sized, n=holder.size, unit=trade.unit, idle=holder.idle))
    lines.append(writer.says("granted", day=written_date(holder.granted)))
    if holder.group:
        lines.append(holder.group.entry)
    new, old = quantity(value, rule.kind.unit), quantity(rule.value, rule.kind.unit)
    lines.append(writer.says("special", place=rule.id, new=new, old=old, measure=rule.kind.measure))
    return lines


def _amendments(writer: _Draft) -> list[tuple[str, list[tuple[str, str]]]]:
    chapters = []
    for rules in _acts(writer.law):
        rows = [(_amended_heading(rule), lettered(_amendment_lines(writer, rule))) for rule in rules]
        year = rules[0].amendment.since.year if rules[0].amendment else 0
        chapters.append((f"Act of {year}", rows))
    return chapters


def _amended_heading(rule: Rule) -> str:
    return f"{rule.kind.heading} ({rule.chapter.trade.heading.lower()} of {rule.chapter.province})"


def _amendment_lines(writer: _Draft, rule: Rule) -> list[str]:
    amendment, unit = rule.amendment, rule.kind.unit
    assert amendment is not None
    new, old = quantity(amendment.value, unit), quantity(rule.value, unit)
    lines = [writer.says("substituted", place=rule.id, new=new, old=old)]
    lines.append(writer.says("since", day=written_date(amendment.since)))
    if amendment.licensed_before and amendment.later:
        slots = {"day": written_date(amendment.licensed_before), "later": written_date(amendment.later)}
        lines.append(writer.says("late", **slots))
    return lines
