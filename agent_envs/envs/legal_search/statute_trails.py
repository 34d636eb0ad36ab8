"""A trail holds the amount that answers a question on generated law, and the paragraphs that it rests on, in reading order."""

from dataclasses import dataclass, field
from datetime import date

from agent_envs.envs.legal_search.library import Library
from agent_envs.envs.legal_search.statute_facts import CLASSES, Chapter, Holder, Law, Rule
from agent_envs.envs.legal_search.statute_parts import Group


@dataclass(frozen=True, slots=True)
class CaseFacts:
    """The facts in a question, or in the register entry that it names.

    Attributes:
        size, idle: units of the business, and how many of them are out of use; None where the size is not known.
        group: a group that the holder belongs to, and whether it falls under the exception.
        granted, when: the day of the licence, and of the matter.
        holder: the entry that the other facts stand in; None where the question tells them.
    """

    chapter: Chapter
    size: int | None = None
    idle: int = 0
    group: tuple[Group, bool] | None = None
    granted: date | None = None
    when: date | None = None
    holder: Holder | None = None

    @staticmethod
    def of(holder: Holder, when: date | None = None) -> "CaseFacts":
        """Return the facts that the register tells of a holder, who is excepted from no group, and the day of a matter."""
        group = (holder.group, False) if holder.group else None
        return CaseFacts(holder.chapter, holder.size, holder.idle, group, holder.granted, when, holder)


@dataclass(slots=True)
class Trail:
    """An amount, and where it comes from.

    Attributes:
        queries: the sections to read, each with the query that finds it, "" where a section before it cites it.
        lines: (section, letter of its paragraph) of what the amount rests on.
        removable: sections without any of which nobody can tell the amount, and that no other chapter needs.
    """

    value: int = 0
    queries: dict[str, str] = field(default_factory=dict)
    lines: list[tuple[str, str]] = field(default_factory=list)
    removable: list[str] = field(default_factory=list)

    def read(self, section: str, *letters: str, query: str = "", removable: bool = False) -> None:
        """Add a section with its first query, and its paragraphs, each once; note the section if it is `removable`."""
        self.queries.setdefault(section, query)
        self.lines += [(section, letter) for letter in letters if (section, letter) not in self.lines]
        if removable and section not in self.removable:
            self.removable.append(section)

    def extend(self, other: "Trail") -> None:
        """Add another trail's queries (the first of a section stays), lines and removable sections, each once."""
        for section, query in other.queries.items():
            self.queries.setdefault(section, query)
        self.lines += [line for line in other.lines if line not in self.lines]
        self.removable += [section for section in other.removable if section not in self.removable]

    def evidence(self, whole: Library, removed: set[str]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
        """Return the sections before a removed one, and (query, section) of each; last the removed one's (query, its chapter).

        A removed section is searched, not found, and looked for in its chapter: its step reads that.
        """
        support, steps = list[str](), list[tuple[str, str]]()
        for section, query in self.queries.items():
            if section in removed:
                steps.append((query or section, whole.read(section).parent))
                break
            support.append(section)
            steps.append((query, section))
        return tuple(support), tuple(steps)


def place(rule: Rule) -> str:
    """Return the words of the law that find a rule."""
    return f"{rule.chapter.province} {rule.chapter.trade.heading} {rule.kind.heading}"


def letter(paragraphs: tuple[str, ...], name: str) -> str:
    """Return the letter of a paragraph by what it is about."""
    return chr(ord("a") + paragraphs.index(name))


def trace_rule(law: Law, rule: Rule, facts: CaseFacts) -> Trail:
    """Return the amount that a rule gives for the known facts of a case, as a trail of all that was read for it."""
    trail = Trail()
    if facts.holder:
        trail.read(facts.holder.id, "a", query=facts.holder.name, removable=True)
    trail.read(rule.id, query=place(rule), removable=True)
    base = _base(trail, rule, facts)
    changes = [change for change in _changes(law, trail, rule, facts) if change]
    one_way = [change for change in changes if (change < 0) is rule.limits_reductions]
    if rule.limit is not None and len(one_way) > 1:
        trail.read(rule.id, letter(rule.paragraphs, "limit"))
    trail.value = rule.varied(base, changes)
    return trail


def _base(trail: Trail, rule: Rule, facts: CaseFacts) -> int:
    """Return the amount before changes: the holder's own, as amended by `when`, or as enacted; add what was read to `trail`."""
    if facts.holder and facts.holder.special[0] is rule:
        trail.read(facts.holder.id, letter(facts.holder.paragraphs, "special"))
        return facts.holder.special[1]
    trail.read(rule.id, "a")
    target = rule.target
    while target:
        trail.read(target.id, "a", removable=True)
        target = target.target
    amendment = rule.amendment
    if not amendment or not facts.when:
        return rule.value
    trail.read(rule.id, letter(rule.paragraphs, "amended"))
    trail.read(amendment.id, "a", "b", removable=True)
    since = amendment.since
    if amendment.licensed_before and amendment.later and facts.granted:
        trail.read(amendment.id, "c")
        _read_register(trail, facts, "granted")
        since = amendment.later if facts.granted < amendment.licensed_before else since
    return amendment.value if facts.when >= since else rule.value


def _changes(law: Law, trail: Trail, rule: Rule, facts: CaseFacts) -> list[int]:
    """Return each proviso's change that the facts decide, 0 where it does not apply; add what was read to `trail`."""
    changes = []
    if rule.sizes and facts.size is not None:
        size = facts.chapter.counted(facts.size, facts.idle)
        for name, change in rule.sizes.items():
            trail.read(rule.id, letter(rule.paragraphs, name))
            trace_size(trail, facts, name)
            changes.append(change * (size == name))
    for group, change in rule.groups:
        if facts.group and facts.group[0] is group:
            trail.read(rule.id, letter(rule.paragraphs, group.noun))
            trail.read(law.group_ids[group.noun], "a", *("b" if facts.group[1] else ""))
            _read_register(trail, facts, "group")
            changes.append(change * (not facts.group[1]))
    for name, row in (("early", rule.early), ("recent", rule.recent)):
        if row and facts.granted:
            trail.read(rule.id, letter(rule.paragraphs, name))
            _read_register(trail, facts, "granted")
            changes.append(row[1] * ((facts.granted < row[0]) is (name == "early")))
    return changes


def trace_size(trail: Trail, facts: CaseFacts, size: str) -> None:
    """Add to the trail the definition that tells whether a business is `size`, idle units', and the register's paragraph."""
    chapter = facts.chapter
    trail.read(chapter.definitions_id, "b" if size == "minor" else "c", *("d" if facts.idle else ""))
    _read_register(trail, facts, "size")


def _read_register(trail: Trail, facts: CaseFacts, name: str) -> None:
    """Add to the trail the register's paragraph on a fact; nothing for a case without a holder."""
    if facts.holder:
        trail.read(facts.holder.id, letter(facts.holder.paragraphs, name))


def trace_fine(law: Law, rule: Rule, facts: CaseFacts, years_since: int | None) -> Trail:
    """Return a breach's highest fine as a trail: class times unit, doubled if major, more if repeated within the years."""
    trail = Trail()
    if facts.holder:
        trail.read(facts.holder.id, "a", query=facts.holder.name, removable=True)
    trail.read(rule.id, letter(rule.paragraphs, "offence"), query=place(rule), removable=True)
    row = CLASSES.index(rule.offence)
    trail.read(law.scale_id, "abcdefg"[row], "f", "g")
    trail.value = law.scale[row]
    if facts.size is not None:
        trace_size(trail, facts, "major")
        trail.value *= 2 if facts.chapter.counted(facts.size, facts.idle) == "major" else 1
    trail.read(law.unit_id, "")
    trail.value *= law.unit
    if years_since is not None:
        trail.read(law.repeat_id, "")
        if years_since <= law.repeat_years:
            trail.value += trail.value * law.repeat_percent // 100
    return trail
