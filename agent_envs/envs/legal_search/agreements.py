"""Generated agreements are contracts between companies, with amendments, and questions on them need up to four reads."""

import random
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import canonical_json
from agent_envs.datasets.world.names import Namer
from agent_envs.envs.legal_search.agreement_parts import (
    HIDEABLE_DEFINITIONS,
    Agreement,
    Draftsman,
    amend,
    draw_agreement,
    wordings,
)
from agent_envs.envs.legal_search.agreement_questions import Clerk, all_cases
from agent_envs.envs.legal_search.generated import (
    KEPT_WORLDS,
    READS,
    GeneratedQuestion,
    GeneratedWorld,
    shares,
    subsets,
    whole_numbers,
)
from agent_envs.envs.legal_search.library import Library

KINDS = ("lookup", "amendment", "definition", "cross_reference", "exception", "deadline", "comparison")
_HIDDEN_EACH = 3
# Others lean on the first three; without the last two the general limit of liability would be an answer.
_NEVER_HIDDEN = ("cap", "post", "termination", "delay", "secrecy_cap")
_ATTEMPTS = 30  # at a world that holds a question that is wanted


@dataclass(frozen=True)
class AgreementsConfig:
    """What a set of agreements is like.

    Attributes:
        agreements: how many, 2 to 12; each has about 35 sections.
        reads: how many sections a question may need.
        kinds: what is asked; of these the ones that go with `reads`.
        amendments: how many figures of each agreement are amended, 0 to 12.
        paraphrase: questions in other words than the agreements; False: they name agreement and clause.
        unanswerable: share of the questions whose section was removed, 0 to 1.
        questions_per_world: 1 to 100.
    """

    agreements: int = 8
    reads: tuple[int, ...] = READS
    kinds: tuple[str, ...] = KINDS
    amendments: int = 5
    paraphrase: bool = True
    unanswerable: float = 0.1
    questions_per_world: int = 20

    def __post_init__(self) -> None:
        """Normalise and check every argument.

        Raises:
            UsageError: an argument is out of its range.
        """
        whole_numbers(self, agreements=(2, 12), amendments=(0, 12), questions_per_world=(1, 100))
        subsets(self, reads=READS, kinds=KINDS)
        shares(self, "unanswerable")
        if type(self.paraphrase) is not bool:
            raise UsageError(f"AgreementsConfig: paraphrase={self.paraphrase!r} is not possible; use True or False")


@lru_cache(maxsize=KEPT_WORLDS)
def get_agreements(config: AgreementsConfig, split: str, index: int) -> GeneratedWorld:
    """Return the world of a configuration, split and index: always the same one, and unlike any other.

    Raises:
        UsageError: no question of the wanted kinds and reads can be asked.
    """
    seed = f"legal/agreements/{canonical_json(asdict(config))}/{split}/{index}"
    for attempt in range(_ATTEMPTS):
        world = _build(random.Random(f"{seed}/{attempt}"), config, f"agreements-{split}-{index}")
        if world.questions:
            return world
    raise UsageError(
        f"AgreementsConfig: no question of kinds={config.kinds} needs reads={config.reads}, with "
        f"amendments={config.amendments} and unanswerable={config.unanswerable}"
    )


def _build(rng: random.Random, config: AgreementsConfig, name: str) -> GeneratedWorld:
    agreements = _draw(rng, config)
    for one in agreements:
        amend(rng, one, config.amendments)
        if config.unanswerable:
            _hide(rng, one)
    pen = Draftsman(rng, config.paraphrase)
    library = Library(name, [section for one in agreements for section in pen.write(one)])
    clerk = Clerk(rng, pen, library.sections, config.paraphrase)
    removed = sorted(one.ids[item] for one in agreements for item in one.hidden)
    return GeneratedWorld(library, _ask(rng, config, agreements, clerk), tuple(removed))


def _draw(rng: random.Random, config: AgreementsConfig) -> tuple[Agreement, ...]:
    namer = Namer(rng, closed=False, sharing=0.0)
    table = wordings()
    performers = [namer.organisation(rng.choice(table["suffixes"])) for _ in range(config.agreements)]
    payers = [namer.organisation(rng.choice(table["suffixes"])) for _ in range(max(1, config.agreements // 2))]
    towns = [namer.city() for _ in range(6)]
    kinds = rng.sample(table["kinds"], config.agreements)
    codes = sorted(rng.sample(range(100, 1000), config.agreements))
    return tuple(
        draw_agreement(rng, f"K-{code}", kind, (a, payers[row % len(payers)]), towns)
        for row, (code, kind, a) in enumerate(zip(codes, kinds, performers, strict=True))
    )


def _hide(rng: random.Random, one: Agreement) -> None:
    able = [item for item in wordings()["items"] if item not in one.amended and item not in _NEVER_HIDDEN]
    one.hidden.update(rng.sample(able, _HIDDEN_EACH))
    if rng.random() < 0.25:
        one.hidden.add(rng.choice(HIDEABLE_DEFINITIONS))


def _ask(
    rng: random.Random, config: AgreementsConfig, agreements: tuple[Agreement, ...], clerk: Clerk
) -> tuple[GeneratedQuestion, ...]:
    blanks = int(config.unanswerable * config.questions_per_world + 0.5)
    cells: dict[tuple[bool, int, str], list[Any]] = {}
    for case in all_cases(agreements):
        if len(case.keys) in config.reads and case.kind in config.kinds:
            cells.setdefault((case.answerable, len(case.keys), case.kind), []).append(case)
    for cases in cells.values():
        rng.shuffle(cases)
    questions: dict[str, GeneratedQuestion] = {}
    for answerable, count in ((False, blanks), (True, config.questions_per_world - blanks)):
        wanted = len(questions) + count
        while len(questions) < wanted and any(cases for cell, cases in cells.items() if cell[0] == answerable):
            # Each number of reads in turn, so that none crowds out another; then one of its kinds.
            for reads in config.reads:
                kinds = [cell for cell, cases in cells.items() if cases and cell[:2] == (answerable, reads)]
                if kinds and len(questions) < wanted:
                    question = clerk.ask(cells[rng.choice(kinds)].pop())
                    questions.setdefault(question.text, question)
    return tuple(rng.sample(list(questions.values()), len(questions)))
