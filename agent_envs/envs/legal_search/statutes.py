"""A fictional body of law has general provisions, chapters on trades, amending Acts, and questions about them.

Every world is the law of an invented country. Chapters on trades have the same rules with other amounts, so that words alone
do not tell which section is meant. A rule can refer to another rule, be subject to an exception that another section states
without naming the rule, be amended by an Act at the end of the code for matters from a day on, depend on sizes that
definitions fix, on fees in units that another title turns into dollars, on classes of offences, or on how days are counted.
"""

import random
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import count

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import canonical_json
from agent_envs.envs.legal_search.generated import KEPT_WORLDS, WORLDS, GeneratedWorld, shares, subsets, whole_numbers
from agent_envs.envs.legal_search.library import Library
from agent_envs.envs.legal_search.questions import CELLS, KINDS, Asker
from agent_envs.envs.legal_search.statute_facts import draw_law
from agent_envs.envs.legal_search.statute_parts import jurisdiction, parts
from agent_envs.envs.legal_search.statute_text import draft


@dataclass(frozen=True)
class StatutesConfig:
    """What a body of law is like. Sequences are kept as sorted tuples, so that equal settings are equal configurations.

    Attributes:
        chapters: how many trades are regulated, 3 to 30; the default gives about 200 sections.
        rules_per_chapter: how many rules each chapter has, 6 to 17.
        reads: how many sections a question may need, each 1 to 4.
        kinds: kinds of questions: "lookup" (one read), "definition", "reference", "exception" (two or three reads),
            "amendment", "deadline" and "comparison".
        paraphrase: how readily questions avoid the law's words, in the person, the act and the rest of each, 0 to 1.
        unanswerable: share of the questions for which a section is removed that they rest on, 0 to 1.
        questions_per_world: how many questions to draw, 1 to 100. Small laws can hold fewer, but never none.
    """

    chapters: int = 10
    rules_per_chapter: int = 9
    reads: tuple[int, ...] = (1, 2, 3, 4)
    kinds: tuple[str, ...] = KINDS
    paraphrase: float = 0.7
    unanswerable: float = 0.1
    questions_per_world: int = 20

    def __post_init__(self) -> None:
        """Normalise and check every argument.

        Raises:
            UsageError: an argument is out of its range, or two contradict each other.
        """
        subsets(self, reads=tuple(CELLS), kinds=KINDS)
        most = len(parts().rules)
        whole_numbers(self, chapters=(3, 30), rules_per_chapter=(6, most), questions_per_world=(1, 100))
        shares(self, "paraphrase", "unanswerable")
        if not any(kind in CELLS[reads] for kind in self.kinds for reads in self.reads):
            raise UsageError(f"StatutesConfig: no question of kinds={self.kinds} takes reads={self.reads}")


def build_statutes(config: StatutesConfig, split: str, index: int) -> GeneratedWorld:
    """Build the law of a configuration, split and index: always the same one, and unlike any other.

    Raises:
        UsageError: the split is unknown or the index is not an int >= 0.
    """
    if split not in WORLDS:
        raise UsageError(f"build_statutes: split={split!r} is unknown; use 'train', 'dev' or 'test'")
    if type(index) is not int or index < 0:
        raise UsageError(f"build_statutes: index={index!r} is not possible; use an int >= 0")
    seed = f"legal/statutes/{canonical_json(asdict(config))}/{split}/{index}"
    name = jurisdiction(split, index)
    found = (_draw(config, f"{seed}/{attempt}", name) for attempt in count())
    return next(statutes for statutes in found if statutes.questions)  # a small law may hold no question that is wanted


def _draw(config: StatutesConfig, seed: str, name: str) -> GeneratedWorld:
    rng = random.Random(seed)
    law = draw_law(rng, name, config.chapters, config.rules_per_chapter)
    whole = Library(f"Code of {name}", draft(rng, law))
    asker = Asker(rng, law, whole, config.paraphrase)
    blanks = int(config.unanswerable * config.questions_per_world + 0.5)
    questions = asker.ask(config.reads, config.kinds, config.questions_per_world - blanks, blanks)
    return GeneratedWorld(whole.without(asker.removed), questions, tuple(sorted(asker.removed)))


@lru_cache(maxsize=KEPT_WORLDS)
def get_statutes(config: StatutesConfig, split: str, index: int) -> GeneratedWorld:
    """Return `build_statutes(config, split, index)`, keeping the last ones. Safe to call from several threads."""
    return build_statutes(config, split, index)
