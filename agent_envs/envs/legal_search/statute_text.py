"""The facts of a generated law are drafted as sections, each of lettered paragraphs of one sentence or two."""

import random
from dataclasses import dataclass

from agent_envs.envs.legal_search.dates import WEEKDAYS, written_date
from agent_envs.envs.legal_search.library import Section
from agent_envs.envs.legal_search.statute_facts import CLASSES, Chapter, Holder, Law, Rule
from agent_envs.envs.legal_search.statute_parts import difference, parts, quantity, with_article

GENERAL_TITLE = (
    1  # what holds for all trades; a title of trades and one of its register for each province, and amendments
)
_NUMBERS = ("second", "third", "fourth", "fifth", "sixth")
Rows = list[tuple[str, str]]  # heading and text of sections


def trades_title(law: Law, place: int) -> int:
    """Return the number of the title that holds the trades of a province."""
    return GENERAL_TITLE + 1 + place


def register_title(law: Law, place: int) -> int:
    """Return the number of the title that holds the licences of a province."""
    return trades_title(law, len(law.provinces) + place)


def amendments_title(law: Law) -> int:
    """Return the number of the last title."""
    return register_title(law, len(law.provinces))


def chapters_of(law: Law, province: str) -> list[Chapter]:
    """Return the chapters about the trades of a province."""
    return [chapter for chapter in law.chapters if chapter.province == province]


@dataclass
class StatuteWriter:
    """Writes the sections of a law title by title, in one of the forms that each kind of sentence has."""

    rng: random.Random
    law: Law

    def __post_init__(self) -> None:
        self.sections: list[Section] = []

    def says(self, formula: str, **slots: object) -> str:
        """Return a sentence of the law in one of its forms."""
        nouns = {f"a_{name}": with_article(str(slots[name])) for name in ("noun", "size") if name in slots}
        text = self.rng.choice(parts().drafting[formula]).format(**slots, **nouns)
        return f"{text[0].upper()}{text[1:]}"

    def title(self, number: int, heading: str, chapters: list[tuple[str, Rows]]) -> None:
        """Append a title, its chapters and their sections in reading order; `chapters` are (heading, (heading, text) rows)."""
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
    """Number every part of a law, in place, and return its sections in reading order."""
    _assign_ids(law)
    writer = StatuteWriter(rng, law)
    writer.title(GENERAL_TITLE, "General provisions", _general_chapters(writer))
    for place, province in enumerate(law.provinces):
        rows = [(chapter.trade.heading, _chapter_rows(writer, chapter)) for chapter in chapters_of(law, province)]
        writer.title(trades_title(law, place), f"Trades of {province}", rows)
    for place, province in enumerate(law.provinces):
        rows = [
            (
                f"Licences for {chapter.trade.heading.lower()}",
                [(h.name, lettered(_entry_lines(writer, h))) for h in chapter.holders],
            )
            for chapter in chapters_of(law, province)
        ]
        writer.title(register_title(law, place), f"Register of {province}", rows)
    writer.title(amendments_title(law), "Amendments", _amendments(writer))
    return writer.sections


def _assign_ids(law: Law) -> None:
    """Give each section of a law its id, in place."""
    law.counting_id, law.post_id = (section_id(f"{GENERAL_TITLE}:1", place) for place in range(2))
    law.scale_id, law.unit_id, law.repeat_id = (section_id(f"{GENERAL_TITLE}:2", place) for place in range(3))
    law.group_ids = {group.noun: section_id(f"{GENERAL_TITLE}:3", place) for place, group in enumerate(parts().groups)}
    for place, province in enumerate(law.provinces):
        for number, chapter in enumerate(chapters_of(law, province), start=1):
            chapter.id = f"{trades_title(law, place)}:{number}"
            chapter.definitions_id = section_id(chapter.id, 0)
            for row, rule in enumerate(chapter.rules, start=1):
                rule.id = section_id(chapter.id, row)
            for row, holder in enumerate(chapter.holders):
                holder.id = section_id(f"{register_title(law, place)}:{number}", row)
    for act, rules in enumerate(_acts(law), start=1):
        for row, rule in enumerate(rules):
            assert rule.amendment is not None
            rule.amendment.id = section_id(f"{amendments_title(law)}:{act}", row)


def _acts(law: Law) -> list[list[Rule]]:
    """Return the amended rules, one list for each year of amendment, years rising."""
    amended = [rule for rule in law.rules if rule.amendment]
    years = sorted({rule.amendment.since.year for rule in amended if rule.amendment})
    return [[rule for rule in amended if rule.amendment and rule.amendment.since.year == year] for year in years]


def _general_chapters(writer: StatuteWriter) -> list[tuple[str, Rows]]:
    """Return (heading, rows) of the general title's chapters: how time counts, fines, and kinds of holders."""
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


def _chapter_rows(writer: StatuteWriter, chapter: Chapter) -> Rows:
    """Return (heading, text) of a chapter's sections: its definitions, then each rule, in lettered paragraphs."""
    trade, (low, high) = chapter.trade, chapter.bounds
    lines = [
        writer.says("meaning", noun=trade.noun, means=trade.means),
        writer.says("minor", noun=trade.noun, low=low, unit=trade.unit),
        writer.says("major", noun=trade.noun, high=high, unit=trade.unit),
        writer.says("idle_in" if chapter.counts_idle else "idle_out", unit=trade.unit),
    ]
    rows = [("Definitions", lettered(lines))]
    for rule in chapter.rules:
        rows.append((rule.kind.heading, lettered([_paragraph(writer, rule, name) for name in rule.paragraphs])))
    return rows


def _paragraph(writer: StatuteWriter, rule: Rule, name: str) -> str:
    """Return the sentence of a rule's paragraph by its name (amount, size, group, date, limit ...); "counted" for any other."""
    law = writer.law
    if name == "amount":
        return writer.rng.choice(rule.kind.says).format(v=_amount_sentence(rule))
    if name in rule.sizes:
        slots = {"size": name, "noun": rule.chapter.trade.noun, "place": rule.chapter.definitions_id}
        return writer.says("size", **slots, **_change_slots(rule, rule.sizes[name]))
    for group, change in rule.groups:
        if name == group.noun:
            slots = {"adjective": group.adjective, "place": law.group_ids[name]}
            return writer.says("group", **slots, **_change_slots(rule, change))
    for dated, row in (("early", rule.early), ("recent", rule.recent)):
        if name == dated and row:
            return writer.says(dated, day=written_date(row[0]), **_change_slots(rule, row[1]))
    if name == "limit":
        kind = "reductions" if rule.limits_reductions else "increases"
        return writer.says(kind, v=difference(rule.limit or 0, rule.kind.unit))
    if name == "amended" and rule.amendment:
        return writer.says("amended", place=rule.amendment.id)
    if name == "offence":
        return writer.says("offence", name=rule.offence, place=law.scale_id)
    return writer.says("counted", place=law.counting_id, post=law.post_id)


def _amount_sentence(rule: Rule) -> str:
    """Return a rule's amount as text, or, where it refers to another rule, by how much it is more or less than that."""
    if rule.target is None:
        return quantity(rule.value, rule.kind.unit)
    delta = rule.value - rule.target.value
    more = f"{difference(abs(delta), rule.kind.unit)} {'more' if delta > 0 else 'less'}"
    trade = rule.target.chapter.trade.heading.lower()
    return f"{more} than the {rule.kind.measure} that § {rule.target.id}(a) fixes for {trade}"


def _change_slots(rule: Rule, change: int) -> dict[str, str]:
    """Return the slots of a sentence that states a change: what is measured, the verb, and by how much."""
    return {
        "measure": rule.kind.measure,
        "changed": "increased" if change > 0 else "reduced",
        "delta": difference(abs(change), rule.kind.unit),
    }


def _entry_lines(writer: StatuteWriter, holder: Holder) -> list[str]:
    """Return a register entry's paragraphs: trade, size, licence, group where it has one, and the special amount."""
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


def _amendments(writer: StatuteWriter) -> list[tuple[str, Rows]]:
    """Return the amending Acts, one a year, as chapters, with a section for each amended rule."""
    chapters = []
    for rules in _acts(writer.law):
        rows = []
        for rule in rules:
            heading = f"{rule.kind.heading} ({rule.chapter.trade.heading.lower()} of {rule.chapter.province})"
            rows.append((heading, lettered(_amendment_lines(writer, rule))))
        year = rules[0].amendment.since.year if rules[0].amendment else 0
        chapters.append((f"Act of {year}", rows))
    return chapters


def _amendment_lines(writer: StatuteWriter, rule: Rule) -> list[str]:
    """Return an amendment's paragraphs: the new amount, its day, and, where there is one, the later day of old licences."""
    amendment, unit = rule.amendment, rule.kind.unit
    assert amendment is not None
    new, old = quantity(amendment.value, unit), quantity(rule.value, unit)
    lines = [writer.says("substituted", place=rule.id, new=new, old=old)]
    lines.append(writer.says("since", day=written_date(amendment.since)))
    if amendment.licensed_before and amendment.later:
        slots = {"day": written_date(amendment.licensed_before), "later": written_date(amendment.later)}
        lines.append(writer.says("late", **slots))
    return lines
