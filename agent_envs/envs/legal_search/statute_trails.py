"""A trail holds the amount that answers a question on generated law, and the provisions read for it, step by step."""

from dataclasses import dataclass, field
from datetime import date

from agent_envs.envs.legal_search.library import Library
from agent_envs.envs.legal_search.statute_facts import CLASSES, Chapter, Law, Rule


@dataclass(frozen=True, slots=True)
class Provision:
    """A provision that must be read.

    Attributes:
        id: the section, or the paragraph that holds what matters.
        query: finds its section; "" where a provision before it cites it.
        is_operative: whether the answer's amount comes from it, so that it is a right citation.
    """

    id: str
    query: str
    is_operative: bool = True

    @property
    def section(self) -> str:
        """The section around it. Only ids that were coined here, which are known to be so built, may be taken apart."""
        return self.id.partition(":(")[0]


@dataclass(slots=True)
class Trail:
    """An amount and the provisions that it rests on; without any of the `removable` sections nobody can tell it."""

    value: int
    provisions: list[Provision] = field(default_factory=list)
    removable: list[str] = field(default_factory=list)

    def extend(self, other: "Trail") -> None:
        """Add what another amount rests on."""
        self.provisions += [row for row in other.provisions if row not in self.provisions]
        self.removable += [row for row in other.removable if row not in self.removable]

    def evidence(
        self, whole: Library, removed: set[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, str], ...]]:
        """Return the ids to read, the right citations and the solver's (query, section), up to the first removed section.

        A removed section is searched, not found, and looked for in its chapter: its step reads that.
        """
        ids, citations, steps = list[str](), list[str](), list[tuple[str, str]]()
        for row in self.provisions:
            if row.section in removed:
                steps.append((row.query or row.section, whole.read(row.section).parent))
                return tuple(ids), (), tuple(steps)
            ids.append(row.id)
            steps.append((row.query, row.section))
            if row.is_operative:
                citations += [row.id] if row.id == row.section else [row.id, row.section]
        return tuple(ids), tuple(dict.fromkeys(citations)), tuple(steps)


def place(rule: Rule) -> str:
    """Return the words of the law that find a rule."""
    return f"{rule.chapter.activity.heading} {rule.kind.heading}"


def trace_definition(chapter: Chapter, size: int) -> Provision:
    """Return the definition of a size of business."""
    query = f"{chapter.activity.heading} Definitions {chapter.activity.unit}"
    return Provision(f"{chapter.definitions_id}:({'abc'[size]})", query, is_operative=False)


def trace_rule(rule: Rule, *, relieved: bool = False, when: date | None = None) -> Trail:
    """Return what a rule comes to, for those that its relief helps or for others, in a matter of a day if it is amended."""
    replaced = rule.amendment is not None and when is not None and when >= rule.amendment.since
    own = Provision(rule.id, place(rule), is_operative=not replaced)
    trail = Trail(rule.value, [own], [] if rule.amendment else [rule.id])
    if rule.target:
        trail.provisions.append(Provision(rule.target.id, ""))
        trail.removable.append(rule.target.id)
    if rule.amendment and when:
        trail.value = rule.amendment.value if replaced else rule.value
        trail.provisions.append(Provision(rule.amendment.id, ""))
        # The heading of its Act would still tell that an earlier matter is under the old amount.
        trail.removable += [rule.amendment.id] if when.year >= rule.amendment.since.year else []
    if rule.relief and relieved:
        trail.value += rule.relief.delta
        trail.provisions.append(Provision(rule.relief.id, ""))
        trail.removable.append(rule.relief.id)
        if rule.relief.group is None:
            trail.provisions.append(trace_definition(rule.chapter, 0))
            trail.removable.append(rule.chapter.definitions_id)
    return trail


def trace_fee(law: Law, chapter: Chapter, occasion: int, size: int, *, late: bool) -> Trail:
    """Return the dollars that a business of a size pays, in time or late."""
    fee = Provision(f"{chapter.fees_id}:({'ab'[occasion]})({size + 1})", f"{chapter.activity.heading} Fees payable")
    trail = Trail(chapter.fees[occasion, size], [trace_definition(chapter, size), fee])
    trail.removable += [chapter.definitions_id, chapter.fees_id]
    if chapter.in_units:
        trail.value *= law.unit
        trail.provisions.append(Provision(law.unit_id, "Money Units unit", is_operative=False))
    if late:
        trail.value += trail.value * law.late_percent // 100
        trail.provisions.append(Provision(law.late_id, "Money Late payment", is_operative=False))
    return trail


def trace_fine(law: Law, rule: Rule, name: str, *, repeated: bool) -> Trail:
    """Return the highest fine for the breach of a rule that is an offence of a class, once or repeated."""
    row = [duty for duty, _ in rule.chapter.offences].index(rule)
    offence = f"{rule.chapter.offences_id}:({'abcdefg'[row]})"
    scale = f"{law.scale_id}:({'abcdefg'[CLASSES.index(name)]})"
    duty = Provision(rule.id, place(rule), is_operative=False)
    trail = Trail(law.scale[CLASSES.index(name)], [duty], [rule.chapter.offences_id])
    trail.provisions.append(Provision(offence, f"{rule.chapter.activity.heading} Offences breach"))
    trail.provisions.append(Provision(scale, f"Scale of fines class {name}"))
    if repeated:
        trail.value += trail.value * law.repeat_percent // 100
        trail.provisions.append(Provision(law.repeat_id, "Repeated offences"))
    return trail
