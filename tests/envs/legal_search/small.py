"""A library of a dozen sections with awkward ids, and questions whose every score can be written down by hand."""

from agent_envs.core.trajectory import Task
from agent_envs.envs.legal_search.env import LegalSearch
from agent_envs.envs.legal_search.library import Library, Section
from agent_envs.envs.legal_search.tasks import ABSTAIN, LegalScenario, LegalStep

FEES, DUES, TERM = "T28:STI:28:2-616", "T28:STI:28:2-616:(a) [old]", "§ 9 (b)"
LONG, ROOT, CHAPTER = "T28:STI:long", "T28", "T28:STI"
LONG_TEXT = " ".join(f"Clause {n} of the schedule lists vessel number {n}." for n in range(400))

LIBRARY = Library(
    "small",
    [
        Section(ROOT, "", (CHAPTER,), "title", "28", "Harbours", ""),
        Section(CHAPTER, ROOT, (FEES, TERM, LONG, "T28:STI:x"), "chapter", "1", "Dues", ""),
        Section(FEES, CHAPTER, (DUES,), "section", "28:2-616", "Mooring", "A keeper of a vessel pays for its mooring:"),
        Section(DUES, FEES, (), "paragraph", "28:2-616(a)", "", "for a small vessel, $120 a year."),
        Section(TERM, CHAPTER, (), "section", "9(b)", "Definitions", "A small vessel is one of less than 12 metres."),
        Section(LONG, CHAPTER, (), "section", "28:2-700", "Schedule", LONG_TEXT),
        Section("T28:STI:x", CHAPTER, (), "section", "28:2-701", "Appeals", "An appeal is lodged within 30 days."),
    ],
)  # fmt: skip

_STEPS = (LegalStep("small vessel definitions", TERM), LegalStep("", DUES))
TASKS = {
    "fee": ("What does a boat of 9 metres pay a year (in dollars)?", ("120", "$120"),
            LegalScenario((TERM, DUES), (TERM, DUES), _STEPS, True, "numeric")),
    "appeal": ("How long is there to complain?", ("30 days",),
               LegalScenario(("T28:STI:x",), ("T28:STI:x",), (LegalStep("appeal", "T28:STI:x"),), True, "em")),
    "meaning": ("What is a small vessel?", ("one of less than 12 metres",),
                LegalScenario((TERM,), (TERM,), (LegalStep("small vessel", TERM),), True, "f1")),
    "gone": ("Who keeps the lighthouse?", (ABSTAIN,),
             LegalScenario((), (), (LegalStep("lighthouse", FEES),), False, "abstain")),
}  # fmt: skip


class SmallSource:
    """The four questions, as one split."""

    name, splits, digest = "small", ("test",), ""

    def size(self, split):
        return len(TASKS)

    def get(self, split, key):
        name = key if isinstance(key, str) else list(TASKS)[key]
        question, gold, scenario = TASKS[name]
        return Task(name, split, question, gold, name, ("small", LIBRARY.digest), scenario)

    def library(self, task):
        return LIBRARY


def make(**arguments):
    """Return an environment over the small library, with ten turns and nine searches as the figures by hand have it."""
    env = LegalSearch(**{"semantic": "bm25", "max_generations": 10, "max_searches": 9, **arguments})
    env.source = SmallSource()
    return env


def play(task, actions, **arguments):
    """Play texts on a question; return (return, last info, environment). All texts are played."""
    env = make(**arguments)
    env.reset(seed=0, options={"task": task})
    total, over, info = 0.0, False, {}
    for action in actions:
        assert not over, f"the episode ended before {action!r}"
        _, reward, terminated, truncated, info = env.step(action)
        assert abs(reward - sum(info["reward_terms"].values())) < 1e-12
        total += reward
        over = terminated or truncated
    return total, info, env
