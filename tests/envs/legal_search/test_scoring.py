"""Bands outcome by outcome, the published formula case by case, and what answers count as right."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import ToolResult
from agent_envs.core.trajectory import Header, Task, Trajectory, Turn
from agent_envs.envs.legal_search.outcomes import (
    MOST_CITED,
    Ended,
    Evidence,
    abstains,
    answered,
    ended_of,
    matches,
    result_of,
)  # fmt: skip
from agent_envs.envs.legal_search.scoring import SEGMENTS, WEIGHTS, EpisodeLimits, labels, make_reward, metrics
from agent_envs.envs.legal_search.tasks import LegalScenario
from agent_envs.envs.legal_search.tools import FAULTS, READ, SEARCHES, Final
from tests.envs.legal_search.small import DUES, FEES, LONG, TERM, play
from tests.rows import each_row

FIND = "<keyword>small vessel</keyword>"  # brings up both gold sections of the fee
READ_TERM, READ_DUES = f"<read>{TERM}</read>", f"<read>{DUES}</read>"
RIGHT = f"<answer>$120 [sources: {DUES}]</answer>"
UNCITED = "<answer>120</answer>"
BOTH = f"<answer>$120 [sources: {TERM}; {DUES}]</answer>"
MISCITED = f"<answer>120 [sources: {FEES}]</answer>"
WRONG = f"<answer>90 [sources: {DUES}]</answer>"
IDK = "<answer>I don't know</answer>"
LOST = "<read>no such id</read>"
IDLE = "<keyword>nothing of the kind</keyword>"

SEGMENTED = [  # task, actions, return
    ("fee", [RIGHT], 1 + 0.15 + 0.1 + 0.3 + 0.3),  # one of the two sections that prove it
    ("fee", [BOTH], 2.0),
    ("fee", [FIND, READ_TERM, READ_DUES, BOTH], 1 + 0.3 + 0.1 + 0.3 * 6 / 9 + 0.3 * 8 / 9),
    ("fee", [f"<answer>120 dollars [sources: {DUES}; {TERM}; {FEES}]</answer>"], 1 + 0.3 + 0.1 * 2 / 3 + 0.6),
    ("fee", [f"<answer>120 [sources: {FEES}]</answer>"], 0.5),
    ("fee", [UNCITED], 0.5),
    ("fee", [f"<answer>120 [sources: {FEES}; x]</answer>"], 0.5),
    ("fee", [f"<answer>120 [sources: a; b; c; d; e; f; g; h; {DUES}]</answer>"], 0.5),  # a list is no citation
    ("fee", [FIND, READ_TERM, UNCITED], 0.5 + 0.1 + 0.05 + 0.1),
    ("fee", [IDK], 0.0),
    ("fee", [IDLE, IDK], 0.0),
    ("fee", [FIND, IDK], 0.1),
    ("fee", [READ_TERM, IDK], 0.05 + 0.05 + 0.1),
    ("fee", [READ_TERM, LOST, IDK], 0.05 + 0.05),
    ("fee", [WRONG], -1.0),
    ("fee", [FIND, READ_TERM, WRONG], -0.9),
    ("fee", [IDLE] * 10, -0.5),
    ("fee", [READ_TERM] * 10, -0.5),
    ("fee", [""], -2 + 0.2),
    ("fee", [FIND, READ_TERM, ""], -2 + 0.2 + 0.1 + 0.05 + 0.1),
    ("gone", [IDK], 0.5),
    ("gone", [f"<read>{LONG}</read>", IDK], 0.6),
    ("gone", [LOST, IDK], 0.5),
    ("gone", ["<answer>the harbour master [sources: x]</answer>"], -1.0),
    ("appeal", ["<answer>30 days [sources: T28:STI:x]</answer>"], 2.0),
    ("appeal", ["<answer>30</answer>"], -1.0),
    ("meaning", [f"<answer>less than 12 metres [sources: {TERM}]</answer>"], 2.0),
]


@each_row(("task", "actions", "total"), SEGMENTED)
def test_segmented_by_hand(task, actions, total):
    found, info, env = play(task, actions)
    assert found == pytest.approx(total, abs=1e-12)
    assert all(turn.reward == 0 for turn in env.episode.turns[:-1])
    assert info["success"] is (env.episode.success)


ART_E = [  # 0.1 each for found, read, no invalid read, sources right; the right section is one that holds the answer
    ("fee", [RIGHT], 1 + 0.3 + 0.1 + 0.09),
    ("fee", [FIND, READ_DUES, RIGHT], 1 + 0.3 + 0.1 + 0.07),
    ("fee", [f"<answer>120 [sources: {DUES}; {TERM}]</answer>"], 1 + 0.3 + 0.05 + 0.09),
    ("fee", [MISCITED], 1 + 0.1 + 0.09),
    ("fee", [UNCITED], 1 + 0.09),
    ("fee", [LOST, UNCITED], 1 + 0.08),
    ("fee", [IDK], 0.1),
    ("fee", [f"<answer>I don't know [sources: {DUES}]</answer>"], 0.2),
    ("fee", [FIND, READ_DUES, f"<answer>I don't know [sources: {DUES}]</answer>"], 0.4),
    ("fee", [LOST, IDK], 0.0),
    ("fee", [FIND, READ_TERM, IDK], 0.3),
    ("fee", [IDLE] * 10, 0.1),
    ("fee", [FIND] * 10, 0.2),
    ("fee", ["<answer>90</answer>"], -0.9),
    ("fee", [FIND, READ_DUES, WRONG], -0.6),
    ("fee", [LOST, "<answer>90</answer>"], -1.0),
    ("fee", [""], -1.7),
    ("fee", [FIND, READ_DUES, "<keyword></keyword>"], -1.5),
    ("gone", [IDK], 0.1),
    ("gone", ["<answer>90</answer>"], -0.9),
]


@each_row(("task", "actions", "total"), ART_E)
def test_art_e_by_hand(task, actions, total):
    assert play(task, actions, reward="art_e")[0] == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "segmented", "art_e"),
    [
        ("<tool_call>{", -2.0, -1.9),
        ('<tool_call>{"name": "fly"}', -1.9, -1.8),
        ('<tool_call>{"name": "read_section"}', -1.8, -1.7),
        ("no call", -1.8, -1.7),
    ],
)
def test_kinds_of_format_errors(text, segmented, art_e):
    for reward, total in (("segmented", segmented), ("art_e", art_e)):
        found, info, env = play("fee", [text], reward=reward, protocol="json")
        assert found == pytest.approx(total, abs=1e-12)
        assert env.episode.turns[-1].terminated and info["success"] is False
        assert "The work ends here" in env.episode.turns[-1].observation[0].content


def made(ended, scenario, searches, reads, turns):
    """Return a trajectory that ended so."""
    rows = [ToolResult("call_0", SEARCHES[0], "", ids=ids) for ids in searches]
    rows += [ToolResult("call_0", READ, "", error=error, ids=ids) for ids, error in reads]
    task = Task("t", "test", "?", ("x",), hidden=scenario)
    header = Header("e", "", "t", "test", "", 0, "k")
    taken = [Turn(n, "k/", "", None, (), tuple(rows) if n == 1 else ()) for n in range(1, turns)]
    last = Turn(turns, "k/", "", None, (), (*(rows if turns == 1 else ()), result_of(ended)), terminated=True)
    return Trajectory(header, (), (*taken, last), task)


SECTION = st.sampled_from(["a", "b", "c:d", "e f"])
SECTIONS = st.lists(SECTION, max_size=4, unique=True).map(tuple)
ENDED = st.one_of(
    st.builds(Ended, st.sampled_from(["cited", "uncited", "abstained", "wrong", "out_of_turns"]), sources=SECTIONS),
    st.builds(Ended, st.just("format_error"), st.sampled_from(FAULTS)),
)
SCENARIO = st.builds(LegalScenario, SECTIONS, SECTIONS, st.just(()), st.booleans(), st.just("em"))
PLAYED = st.builds(
    made,
    ENDED,
    SCENARIO,
    st.lists(SECTIONS, max_size=12),
    st.lists(st.tuples(SECTIONS, st.booleans()), max_size=6),
    st.integers(1, 10),
)
WEIGHT = st.floats(0, 10, allow_nan=False)
BANDS = {  # the paper's, as this environment closes and opens them
    "cited": (1.0, 2.0), "uncited": (0.5, 0.99), "abstained": (0.0, 0.99), "out_of_turns": (-0.5, -0.5),
    "wrong": (-1.0, -0.51), "format_error": (-2.0, -1.01),
}  # fmt: skip


@given(
    trajectory=PLAYED,
    weights=st.fixed_dictionaries({}, optional=dict.fromkeys(WEIGHTS, WEIGHT)),
    searches=st.integers(0, 9),
)
def test_bands_never_overlap_whatever_the_inner_terms(trajectory, weights, searches):
    spec = make_reward("segmented", EpisodeLimits(10, searches), weights)
    total = spec(trajectory).total
    outcome = ended_of(trajectory).outcome
    low, high = BANDS[outcome]
    assert low - 1e-9 <= total <= high + 1e-9
    others = [band for name, band in BANDS.items() if name not in (outcome, "uncited", "abstained")]
    assert not any(low - 1e-6 < total < high + 1e-6 for low, high in others)
    if outcome == "abstained":
        assert (total >= 0.5 - 1e-9) is not trajectory.task.hidden.answerable


@given(trajectory=PLAYED)
def test_art_e_stays_in_the_published_ranges(trajectory):
    ended = ended_of(trajectory)
    total = make_reward("art_e", EpisodeLimits(10, 9))(trajectory).total
    ranges = {"format_error": (-2.0, -1.4), "wrong": (-1.0, -0.6), "cited": (1.0, 1.5), "uncited": (1.0, 1.5)}
    low, high = ranges.get(ended.outcome, (0.0, 0.4))
    assert low - 1e-9 <= total <= high + 1e-9


@given(one=PLAYED, turns=st.integers(1, 9), searches=st.integers(0, 8))
def test_a_right_answer_earns_more_with_fewer_turns_and_searches(one, turns, searches):
    scenario = LegalScenario(("a",), ("a",), (), True, "em")
    spec = make_reward("segmented", EpisodeLimits(10, 9))

    def earned(turns, searches):
        return spec(made(Ended("cited", sources=("a",)), scenario, [("a",)] * searches, [], turns)).total

    assert earned(turns, searches) > earned(turns + 1, searches)
    assert earned(turns, searches) > earned(turns, searches + 1)


@given(turns=st.integers(1, 9), searches=st.integers(0, 8), proving=st.integers(1, 6))
def test_citing_all_that_proves_an_answer_pays_at_least_as_much_as_citing_less(turns, searches, proving):
    names = tuple(f"s{number}" for number in range(proving))
    spec = make_reward("segmented", EpisodeLimits(10, 9))
    scenario = LegalScenario(names, names, (), True, "em")
    earned = [spec(made(Ended("cited", sources=names[:cited]), scenario, [("s0",)] * searches, [], turns)).total
              for cited in range(1, proving + 1)]  # fmt: skip
    assert earned == sorted(earned)


def test_every_end_is_ranked():
    """Right and cited, then uncited or rightly abstaining, abstaining, stalling, a wrong answer, a format error."""
    order = [play("fee", actions)[0] for actions in ([RIGHT], [UNCITED], [IDK], [IDLE] * 10, [FIND, WRONG], [""])]
    assert order == sorted(order, reverse=True) and len(set(order)) == len(order)
    assert play("gone", [IDK])[0] > play("fee", [FIND, READ_TERM, READ_DUES, IDK])[0]


def test_floors_are_met_where_the_inner_weights_are_nothing():
    nothing = dict.fromkeys(WEIGHTS, 0.0)
    for actions, floor in (([RIGHT], 1.0), ([FIND, IDK], 0.0), ([FIND, WRONG], -1.0), ([""], -2.0)):
        assert play("fee", actions, weights=nothing)[0] == floor
    assert play("gone", [IDK], weights=nothing)[0] == 0.5


def test_segments_do_not_touch():
    ends = sorted((floor, floor + width) for floor, width, _ in set(SEGMENTS.values()) if floor != -0.5)
    assert all(before[1] < after[0] for before, after in zip(ends, ends[1:], strict=False) if before[0] != after[0])
    assert SEGMENTS["wrong"][0] + SEGMENTS["wrong"][1] < SEGMENTS["out_of_turns"][0] < SEGMENTS["abstained"][0]


@each_row(
    ("answer", "golds", "metric", "right"),
    [
        ("12", ("12",), "numeric", True),
        ("$1,200", ("1200", "$1,200"), "numeric", True),
        ("1200.00 dollars", ("1200",), "numeric", True),
        ("within 12 days", ("12", "12 days"), "numeric", True),
        ("12 or 13 days", ("12",), "numeric", False),
        ("-12", ("12",), "numeric", False),
        ("- $12", ("12",), "numeric", False),
        ("\u221212", ("12",), "numeric", False),
        ("minus 12", ("12",), "numeric", False),
        ("12k", ("12",), "numeric", False),
        ("12 thousand", ("12",), "numeric", False),
        ("$12 million", ("12", "$12"), "numeric", False),
        ("3 dozen", ("3",), "numeric", False),
        ("half of 12", ("12",), "numeric", False),
        ("twice 12", ("12",), "numeric", False),
        ("negative 12", ("12",), "numeric", False),
        ("12M", ("12",), "numeric", False),
        ("12 bn", ("12",), "numeric", False),
        ("a third of 12", ("12",), "numeric", False),
        ("12 squared", ("12",), "numeric", False),
        ("It must be filed twice a year within 12 days", ("12",), "numeric", True),
        ("The fee is $12 per million gallons", ("12",), "numeric", True),
        ("A fence of 12 m", ("12",), "numeric", True),
        ("12 kinds", ("12",), "numeric", True),
        ("112", ("12",), "numeric", False),
        ("12.5", ("12",), "numeric", False),
        ("twelve", ("12",), "numeric", False),
        ("1,2", ("12",), "numeric", False),
        ("1,2 days", ("12", "12 days"), "numeric", False),
        ("$9,50", ("950", "$950"), "numeric", False),
        ("$1,23,456", ("123456",), "numeric", False),
        ("12, and no more", ("12",), "numeric", True),
        ("$1,200, in all", ("1200", "$1,200"), "numeric", True),
        (".5 days", ("5", "5 days"), "numeric", False),
        (".5", ("0.5",), "numeric", True),
        ("12 months", ("12 days",), "em", False),
        ("The 12 days.", ("12 days",), "em", True),
        ("in 12 days", ("12 days",), "em", False),
        ("a vessel of less than 12 metres", ("one of less than 12 metres",), "f1", True),
        ("vessel", ("one of less than 12 metres",), "f1", False),
        ("", ("12",), "numeric", False),
        ("9" * 5000, ("12",), "numeric", False),
        ("1.2", ("12",), "numeric", False),  # as exact match would have it
        ("12%", ("12", "12 percent"), "numeric", True),
        ("12 per cent", ("12", "12 percent"), "numeric", True),
        ("12 days", ("12",), "numeric", True),
        ("12 months", ("12", "12 days"), "numeric", False),
        ("$12", ("12", "12 days"), "numeric", False),
        ("12", ("12",), "no such metric", True),
        ("12", ("12 days",), "numeric", True),
        ("12 days after the hearing", ("12 days",), "numeric", True),
        ("12 months", ("12 days",), "numeric", False),
        ("3\u00b2", ("3",), "numeric", False),
        ("12 business days", ("12", "12 days"), "numeric", False),
        ("12 days", ("12 business days",), "numeric", False),
        ("12 business-days", ("12 days",), "numeric", False),
        ("12 business-days", ("12 business days",), "numeric", True),
        ("12 court days", ("12 days",), "numeric", False),
        ("12 dozens", ("12",), "numeric", False),
        ("Businesses file within 12 days", ("12 days",), "numeric", True),
        ("It is not 2520", ("2520", "$2,520"), "numeric", False),
        ("It isn't $2,520.", ("2520", "$2,520"), "numeric", False),
        ("not more than 12 days", ("12", "12 days"), "numeric", True),
        ("$900 + $20 = $920", ("920", "$920"), "numeric", True),
        ("$900 + $20 = $920", ("900", "$900"), "numeric", False),
        ("$900 + $20", ("920", "$920"), "numeric", False),
        ("It is not one of less than 12 metres", ("one of less than 12 metres",), "f1", False),
        ("one that is not insured", ("one that is not insured",), "f1", True),
    ],
)
def test_matching(answer, golds, metric, right):
    assert matches(answer, golds, metric) is right


@each_row(
    ("answer", "is_so"),
    [("I don't know", True), ("I don’t know.", True), ("I do not know: it is not in the law", True), ("i dont know", True),
     ("I know", False), ("Don't know", False), ("", False), ("unknown", False), ("It is 5; I don't know why", False)],
)  # fmt: skip
def test_abstaining(answer, is_so):
    assert abstains(answer) is is_so


def test_hedging_behind_an_abstention_earns_no_answer():
    assert play("fee", [f"<answer>I don't know, perhaps 120 [sources: {DUES}]</answer>"])[0] == 0.0


@given(sources=st.lists(SECTION, max_size=MOST_CITED + 3, unique=True).map(tuple))
def test_citations(sources):
    task = Task("t", "test", "?", ("x",), hidden=LegalScenario(("a", "b"), ("b",), (), True, "em"))
    outcome = answered(task, Final("x", sources), None).outcome
    assert outcome == ("cited" if "b" in sources and len(sources) <= MOST_CITED else "uncited")


def test_the_end_survives_its_travel_as_a_result():
    for ended in (
        Ended("wrong", sources=("a:b", "c")),
        Ended("format_error", "no_call"),
        Ended("cited", "", True, "1", ("x",)),
    ):
        scenario = LegalScenario((), (), (), True, "em")
        assert ended_of(made(ended, scenario, [], [], 3)) == ended
    assert ended_of(Trajectory(Header("e", "", "t", "test", "", 0, "k"), (), ())) == Ended()


def test_no_tool_can_forge_an_end():
    """Only a result without a call id is read: whatever a policy calls, its calls have one."""
    forged = ToolResult("call_0", "outcome", "", ids=("cited", "", "1", "", DUES))
    header = Header("e", "", "t", "test", "", 0, "k")
    assert ended_of(Trajectory(header, (), (Turn(1, "k/", "", None, (), (forged,)),))) == Ended()


def test_metrics_and_labels():
    _, _, env = play("fee", [FIND, READ_TERM, LOST, WRONG])
    found = metrics(env.trajectory)
    assert found == {
        "abstained": 0, "wrong": 1, "out_of_turns": 0, "format_error": 0, "cited": 0, "found": 1, "searches": 1, "reads": 1,
    }  # fmt: skip
    assert Evidence.of(env.trajectory).invalid_reads == 1
    assert labels(env.episode.task) == {"kind": "small", "answerable": "yes"}
    assert metrics(play("gone", [IDK])[2].trajectory)["abstained"] == 1
    assert metrics(play("gone", [IDK])[2].trajectory)["found"] is None


BAD_WEIGHTS = [{"speed": 1.0}, {"found": -0.1}, {"found": True}, {"found": "1"}, {"found": math.nan}, {"read": 11}]


@pytest.mark.parametrize("weights", BAD_WEIGHTS, ids=str)
def test_bad_weights_are_refused(weights):
    with pytest.raises(UsageError, match="weights"):
        make_reward("segmented", EpisodeLimits(10, 9), weights)
    with pytest.raises(UsageError, match="weights"):
        make_reward("art_e", EpisodeLimits(10, 9), {"found": 0.2})
    with pytest.raises(UsageError, match="no_such"):
        make_reward("no_such", EpisodeLimits(10, 9))
