"""A fictional world of linked facts is generated, as passages to search and multi-hop questions that need several of them.

People, cities, regions, novels, films, songs, paintings, companies, universities and museums are invented from a seed,
related to each other, stated in passages and asked about in chains and comparisons. Nothing in it can have been seen in
training: with the open vocabulary every proper name is coined for its world. The closed vocabulary draws all words from
one published list instead (`closed_vocabulary`), for word-level models that are trained from scratch.

Modules, in reading order:
    relations: kinds of entities, their relations, and the wordings of passages and questions (`wordings.json`).
    names: coined and closed-vocabulary names of people, cities, works and organisations.
    facts: the entities and their dated facts, and the facts that are hidden for unanswerable questions; the passages.
    questions: chains (bridge), comparisons and unanswerable questions, with answers, support and oracle searches, and the
        BM25 check that every search of a solution finds its passage.
"""

import random
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from typing import Any

from agent_envs.base.arguments import choice, flag, portion, whole_number, whole_numbers
from agent_envs.base.caches import Uncopied
from agent_envs.base.documents import MemoryCorpus
from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import canonical_json
from agent_envs.datasets.seeded import SPLITS
from agent_envs.datasets.world.facts import CLOSINGS, FIRST_YEAR, LAST_YEAR, TRADES, Facts, Teller
from agent_envs.datasets.world.names import COMPANY_SUFFIXES, Namer, name_words
from agent_envs.datasets.world.questions import MOST_GAP, UNKNOWN, Asker, WorldQuestion, WorldStep
from agent_envs.datasets.world.relations import kinds, template_words

__all__ = [
    "ToldWorld", "World", "WorldConfig", "WorldQuestion", "WorldStep", "build_world", "closed_vocabulary", "get_world",
    "tell_world",
]  # fmt: skip

KINDS = ("bridge", "comparison")
VOCABULARIES = ("open", "closed")


@dataclass(frozen=True)
class WorldConfig:
    """Settings of a world. Sequences are kept as sorted tuples, so that equal settings are equal configurations.

    Attributes:
        hops: how many passages a question may need, each 1 to 4. A comparison takes 2 or 4.
        kinds: "bridge" (chains; a look-up is a bridge of one hop) and "comparison".
        passages: how many passages the world has, 40 to 500.
        distractors: how readily names are shared, 0 to 1: surnames, given names, titles of works in other media,
            organisations that bear the name of a city where they are not.
        paraphrase: several wordings for everything, the questions' unlike the passages'; False: one for each.
        unanswerable: share of the questions whose last fact no passage states, 0 to 1.
        questions_per_world: how many questions to draw, 1 to 512. From 150 passages on there are 128 that can be answered.
            Of unanswerable ones there can be fewer than are wanted: a third of the entities, and at most 80, hide one fact
            each, and few chains of four hops end there. Other worlds can hold fewer questions, but never none.
        vocabulary: "open" or "closed".
        short: passages of one or two facts (8 to 20 words) instead of one for each entity (30 to 80 words).
    """

    hops: tuple[int, ...] = (1, 2, 3, 4)
    kinds: tuple[str, ...] = KINDS
    passages: int = 300
    distractors: float = 0.5
    paraphrase: bool = True
    unanswerable: float = 0.0
    questions_per_world: int = 128
    vocabulary: str = "open"
    short: bool = False

    def __post_init__(self) -> None:
        """Normalise and check every argument.

        Raises:
            UsageError: an argument is out of its range, or two contradict each other.
        """
        _check_subset("hops", self.hops, (1, 2, 3, 4))
        _check_subset("kinds", self.kinds, KINDS)
        object.__setattr__(self, "hops", tuple(sorted(set(self.hops))))
        object.__setattr__(self, "kinds", tuple(sorted(set(self.kinds))))
        whole_numbers(
            "WorldConfig", passages=(self.passages, 40, 500), questions_per_world=(self.questions_per_world, 1, 512)
        )
        for name in ("distractors", "unanswerable"):
            object.__setattr__(self, name, portion("WorldConfig", name, getattr(self, name)))
        for name in ("paraphrase", "short"):
            flag("WorldConfig", name, getattr(self, name))
        choice("WorldConfig", "vocabulary", self.vocabulary, VOCABULARIES)
        if self.kinds == ("comparison",) and not {2, 4} & set(self.hops):
            raise UsageError(f"WorldConfig: hops={self.hops} leaves no comparison; add 2 or 4, or kind 'bridge'")
        if self.unanswerable and "bridge" not in self.kinds:
            raise UsageError(
                "WorldConfig: unanswerable questions are chains; add 'bridge' to kinds or use unanswerable=0"
            )


def _check_subset(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    """Raise UsageError unless a value is an iterable, no text, of one or more of the allowed numbers or names."""
    is_sequence = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
    items = list(value) if is_sequence else []
    if not items or any(type(item) not in (int, str) or item not in allowed for item in items):
        raise UsageError(f"WorldConfig: {name}={value!r} is not possible; use a tuple of one or more of {allowed}")


@dataclass(frozen=True)
class World(Uncopied):
    """A built world: the text that seeded it, its passages, and its questions with pairwise different texts."""

    seed: str
    corpus: MemoryCorpus
    questions: tuple[WorldQuestion, ...]


@dataclass(frozen=True)
class ToldWorld:
    """A world before anything is asked: its seed, its facts, the passages that tell them, and the draws to go on with.

    Whoever takes one may add to its facts: no two calls of `tell_world` share anything.
    """

    seed: str
    rng: random.Random
    facts: Facts
    corpus: MemoryCorpus


def tell_world(config: WorldConfig, split: str, index: int) -> ToldWorld:
    """Draw and tell the world of a configuration, split and index, always alike; UsageError for another split or index.

    Raises:
        UsageError: the split is unknown or the index is not an int >= 0.
    """
    choice("build_world", "split", split, SPLITS)
    whole_number("build_world", "index", index, 0)
    seed = f"world:v0:{canonical_json(asdict(config))}:{split}:{index}"
    rng = random.Random(seed)
    facts = Facts(rng, Namer(rng, config.vocabulary == "closed", config.distractors), config.passages, config.short)
    if _blanks(config):
        facts.hide()
    return ToldWorld(seed, rng, facts, MemoryCorpus(Teller(rng, config.short, config.paraphrase).tell(facts)))


def build_world(config: WorldConfig, split: str, index: int) -> World:
    """Build a world with its questions, the same at each call; UsageError for an unknown split or an index below 0.

    Raises:
        UsageError: the split is unknown or the index is not an int >= 0.
    """
    world, blanks = tell_world(config, split, index), _blanks(config)
    asker = Asker(world.rng, world.facts, world.corpus.passages, config.paraphrase)
    questions = asker.ask([("unanswerable", hops) for hops in config.hops], blanks)
    cells = [(kind, hops) for hops in config.hops for kind in config.kinds if kind == "bridge" or hops % 2 == 0]
    questions += asker.ask(cells, max(config.questions_per_world - blanks, 0 if questions else 1))
    world.rng.shuffle(questions)
    return World(world.seed, world.corpus, tuple(questions))


def _blanks(config: WorldConfig) -> int:
    """Return the number of questions without an answer."""
    return int(config.unanswerable * config.questions_per_world + 0.5)


@lru_cache(maxsize=64)
def get_world(config: WorldConfig, split: str, index: int) -> World:
    """Return `build_world(config, split, index)`, keeping the last 64 worlds. Safe to call from several threads."""
    return build_world(config, split, index)


@cache
def closed_vocabulary() -> tuple[str, ...]:
    r"""Return, sorted and cached, every token of closed worlds' passages, titles, questions and answers.

    Tokens are those of `re.findall(r"\w+|[^\w\s]", text.lower())`.
    """
    nouns = [word for noun in (*TRADES, *COMPANY_SUFFIXES, *kinds()) for word in noun.split()]
    years = map(str, range(FIRST_YEAR, LAST_YEAR + 1))
    gaps = map(str, range(1, MOST_GAP + 1))
    words = [*template_words(CLOSINGS), *name_words(), *nouns, *years, *gaps, *UNKNOWN, "yes", "no", "(", ")"]
    return tuple(sorted({word.lower() for word in words}))
