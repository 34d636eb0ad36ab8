"""The knobs of the fact world: bad ones are named, good ones always build."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from agent_envs.datasets.world import WorldConfig, build_world
from tests.examples import examples
from tests.rows import each_row


@each_row(
    ("argument", "values", "told"),
    [
        ("hops", [(), (0,), (5,), 2, (True,), "12"], " is not possible; use a tuple of one or more of (1, 2, 3, 4)"),
        (
            "kinds",
            [("chain",), (), "bridge"],
            " is not possible; use a tuple of one or more of ('bridge', 'comparison')",
        ),
        ("passages", [39, 501, 100.0, True], "; give a whole number from 40 to 500"),
        ("distractors", [-0.1, 1.1, float("nan"), "high"], "; give a number from 0 to 1"),
        ("unanswerable", [2, None], "; give a number from 0 to 1"),
        ("paraphrase", [1], "; give True or False"),
        ("short", ["no"], "; give True or False"),
        ("questions_per_world", [0, 513], "; give a whole number from 1 to 512"),
        ("vocabulary", ["latin", []], "; give one of open, closed"),
    ],
)
def test_a_bad_knob_is_named(argument: str, values: list[Any], told: str) -> None:
    for value in values:
        with pytest.raises(UsageError) as refused:
            WorldConfig(**{argument: value})
        assert str(refused.value) == f"WorldConfig: {argument}={value!r}{told}"


def test_knobs_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(UsageError, match="hops"):
        WorldConfig(kinds=("comparison",), hops=(1, 3))
    with pytest.raises(UsageError, match="unanswerable"):
        WorldConfig(kinds=("comparison",), unanswerable=0.1)
    with pytest.raises(UsageError, match="split"):
        build_world(WorldConfig(), "validation", 0)
    for index in (-1, 1.0, True, "0"):
        with pytest.raises(UsageError, match="index"):
            build_world(WorldConfig(), "dev", index)  # type: ignore[arg-type]


def test_equal_settings_are_equal_configurations() -> None:
    one = WorldConfig(hops=[2, 1, 2], kinds=["bridge"], distractors=1)  # type: ignore[arg-type]
    other = WorldConfig(hops=(1, 2), kinds=("bridge",), distractors=1.0)
    assert one == other and hash(one) == hash(other)
    assert build_world(one, "dev", 0).seed == build_world(other, "dev", 0).seed


@st.composite
def configs(draw: st.DrawFn) -> WorldConfig:
    kinds = draw(st.sampled_from([("bridge",), ("comparison",), ("bridge", "comparison")]))
    hops = draw(st.lists(st.integers(1, 4), min_size=1).map(tuple))
    if kinds == ("comparison",) and not {2, 4} & set(hops):
        hops = (*hops, 2)
    return WorldConfig(
        hops=hops,
        kinds=kinds,
        passages=draw(st.integers(40, 500)),
        distractors=draw(st.floats(0, 1)),
        paraphrase=draw(st.booleans()),
        unanswerable=draw(st.floats(0, 1)) if "bridge" in kinds else 0.0,
        questions_per_world=draw(st.integers(1, 128)),
        vocabulary=draw(st.sampled_from(["open", "closed"])),
        short=draw(st.booleans()),
    )


def test_most_worlds_hold_the_unanswerable_questions_that_are_wanted() -> None:
    counts = [
        sum(question.kind == "unanswerable" for question in build_world(config, "train", index).questions)
        for config in (
            WorldConfig(unanswerable=0.1),
            WorldConfig(unanswerable=0.1, hops=(4,), passages=170, short=True),
        )
        for index in range(6)
    ]
    assert counts[:6] == [13] * 6 and 13 in counts[6:] and max(counts) == 13


@examples(60)
@given(configs(), st.sampled_from(["train", "dev", "test"]), st.integers(0, 10**9))
def test_any_configuration_builds(config: WorldConfig, split: str, index: int) -> None:
    world = build_world(config, split, index)
    texts = {question.text for question in world.questions}
    assert len(world.corpus) == config.passages <= 500
    assert len(texts) == len(world.questions) <= config.questions_per_world
    blank = [question for question in world.questions if question.kind == "unanswerable"]
    wanted = int(config.unanswerable * config.questions_per_world + 0.5)
    assert world.questions and len(blank) <= wanted
    if config.passages >= 150:
        assert len(world.questions) - len(blank) == max(config.questions_per_world - wanted, 0 if blank else 1)
    for question in world.questions:
        assert question.hops in config.hops
        assert question.kind in (*config.kinds, "unanswerable")
        for passage_id in question.support:
            world.corpus.row(passage_id)
