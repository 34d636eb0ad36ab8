"""A fictional body of law has chapters on trades in several provinces, general provisions, a register, and amending Acts.

Every chapter has the same rules with other amounts, so that words alone do not tell which section is meant. A rule varies its
amount for sizes of business that the chapter defines, for groups that general provisions define and except from, and for
early licences, up to a limit; it can refer to the same rule of another trade, be amended for matters from a day on, or be
replaced for one holder by a condition in the register. Fines go by a scale of units, and deadlines by how days are counted.
"""

import random
from dataclasses import asdict, dataclass
from functools import lru_cache

from agent_envs.base.arguments import choice
from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import canonical_json
from agent_envs.envs.legal_search import generated
from agent_envs.envs.legal_search.library import Library
from agent_envs.envs.legal_search.questions import CELLS, KINDS, StatuteAsker
from agent_envs.envs.legal_search.statute_facts import draw_law
from agent_envs.envs.legal_search.statute_parts import WORDINGS, jurisdiction, parts
from agent_envs.envs.legal_search.statute_text import draft


@dataclass(frozen=True)
class StatutesConfig:
    """Settings of a body of law. Sequences are kept as sorted tuples, so that equal settings are equal configurations.

    Attributes:
        trades: how many trades are regulated in each province, 3 to 36; the default gives about 2,100 sections.
        provinces: how many provinces have a law of their own, 1 to 4.
        rules_per_chapter: how many rules each chapter has, 4 to 17.
        holders_per_chapter: how many entries the register has for each chapter, 2 to 12.
        reads: how many sections a question may need, each 1 to 6.
        kinds: kinds of questions: "amount", "deadline", "fine", "comparison" of two holders, and "term".
        wording: which set of wordings questions have, "first", "second", "third" or "fourth".
        unanswerable: share of the questions for which a section is removed that they rest on, 0 to 1.
        questions_per_world: how many questions to draw, 1 to 200. Small laws can hold fewer, but never none.
    """

    trades: int = 30
    provinces: int = 3
    rules_per_chapter: int = 17
    holders_per_chapter: int = 5
    reads: tuple[int, ...] = generated.READS
    kinds: tuple[str, ...] = KINDS
    wording: str = "first"
    unanswerable: float = 0.1
    questions_per_world: int = 100

    def __post_init__(self) -> None:
        """Normalise and check every argument.

        Raises UsageError: an argument is out of its range, or two contradict each other.
        """
        generated.subsets(self, reads=generated.READS, kinds=KINDS)
        generated.whole_numbers(
            self,
            trades=(3, len(parts().trades)),
            provinces=(1, 4),
            rules_per_chapter=(4, len(parts().rules)),
            holders_per_chapter=(2, 12),
            questions_per_world=(1, 200),
        )
        choice("StatutesConfig", "wording", self.wording, WORDINGS)
        generated.shares(self, "unanswerable")
        if not any(reads in CELLS[kind] for kind in self.kinds for reads in self.reads):
            raise UsageError(f"StatutesConfig: no question of kinds={self.kinds} takes reads={self.reads}")


def build_statutes(config: StatutesConfig, split: str, index: int) -> generated.GeneratedWorld:
    """Build a law and its questions, the same at each call; UsageError for a bad split or index, or a law without questions.

    Raises UsageError: the split is unknown or the index is not an int >= 0.
    """
    if split not in generated.WORLDS:
        raise UsageError(f"build_statutes: split={split!r} is unknown; use 'train', 'dev' or 'test'")
    if type(index) is not int or index < 0:
        raise UsageError(f"build_statutes: index={index!r} is not possible; use an int >= 0")
    seed = f"legal/statutes/{canonical_json(asdict(config))}/{split}/{index}"
    for attempt in range(100):
        rng = random.Random(f"{seed}/{attempt}")
        names = tuple(jurisdiction(split, index * config.provinces + place) for place in range(config.provinces))
        law = draw_law(rng, names, config.trades, config.rules_per_chapter, config.holders_per_chapter)
        whole = Library(f"Law of {' and '.join(names)}", draft(rng, law))
        asker = StatuteAsker(rng, law, whole, config.wording)
        blanks = int(config.unanswerable * config.questions_per_world + 0.5)
        questions = asker.ask(config.reads, config.kinds, config.questions_per_world - blanks, blanks)
        if questions:  # a small law may hold no question that is wanted
            return generated.GeneratedWorld(whole.without(asker.removed), questions, tuple(sorted(asker.removed)))
    raise UsageError(f"build_statutes: {config} gives laws without a question; allow more reads, kinds or trades")


@lru_cache(maxsize=generated.KEPT_WORLDS)
def get_statutes(config: StatutesConfig, split: str, index: int) -> generated.GeneratedWorld:
    """Return `build_statutes(config, split, index)`, keeping the last ones. Safe to call from several threads."""
    return build_statutes(config, split, index)
