"""Crafter's words, read back: a reader finds in them what they tell of a moment."""

import random
import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agent_envs.envs.text_games.crafter.describe import CENTER, KIND_OF, VITALS, describe, faced, listed, nearest, unmet
from agent_envs.envs.text_games.crafter.sight import ACROSS, DIRECTIONS, DOWN, MATERIALS, OUTSIDE, THINGS, CrafterSight
from agent_envs.envs.text_games.crafter.world import new_game, rules
from tests.examples import examples
from tests.rows import each_row

LINE = re.compile(
    r"- (?:an? )?(?P<kind>.+?)(?= \d+ step)(?: (?P<x>\d+) steps? (?P<side>left|right))?(?: and)?"
    r"(?: (?P<y>\d+) steps? (?P<height>up|down))?(?: \((?P<number>\d+) in sight\))?"
)
CELLS = ACROSS * DOWN
sights = st.builds(
    CrafterSight,
    ground=st.text(alphabet="".join(MATERIALS.values()) + OUTSIDE, min_size=CELLS, max_size=CELLS).map(
        lambda text: text[:CENTER] + "." + text[CENTER + 1 :]
    ),
    things=st.text(alphabet="".join(THINGS.values()) + " " * 20, min_size=CELLS, max_size=CELLS).map(
        lambda text: text[:CENTER] + " " + text[CENTER + 1 :]
    ),
    facing=st.sampled_from(sorted(DIRECTIONS)),
    items=st.tuples(*[st.integers(0, 9)] * 16),
    sleeping=st.booleans(),
    steps=st.integers(0, 700),
    unlocked=st.just(()),
)


def read(text):
    """Return what a description tells: signs, what is carried, asleep, dark, ground, side, front, and what is seen where."""
    lines = text.split("\n")
    signs = {name: int(re.search(rf"{name} (\d)", lines[0])[1]) for name in VITALS}
    carried = {name: int(number) for number, name in re.findall(r"(\d) ([a-z ]+?)(?=,| and |\.$)", lines[1])}
    stand = re.search(r"^You stand on (?:an? )?(.+) and look (\w+), at (?:an? )?(.+)\.$", text, re.MULTILINE)
    seen = {}
    for line in lines[lines.index("In sight, the nearest of each kind:") + 1 :]:
        found = LINE.fullmatch(line)
        x = int(found["x"] or 0) * (-1 if found["side"] == "left" else 1)
        y = int(found["y"] or 0) * (-1 if found["height"] == "up" else 1)
        seen[found["kind"]] = ((x, y), int(found["number"] or 1))
    return signs, carried, "You are asleep" in text, "It is dark." in lines, *stand.groups(), seen


def told(sight):
    """Return what a description should tell, found anew from the moment."""
    names = [name.replace("_", " ") for name in rules().items]
    kinds = [KIND_OF.get(thing if thing != " " else ground, "") for ground, thing in zip(sight.ground, sight.things)]  # noqa: B905
    seen = {}
    for distance in range(1, 9):
        for y in range(-3, 4):
            for x in range(-4, 5):
                kind = kinds[(y + 3) * ACROSS + x + 4]
                if abs(x) + abs(y) == distance and kind:
                    seen.setdefault(kind, ((x, y), sum(other == kind for n, other in enumerate(kinds) if n != CENTER)))
    dx, dy = DIRECTIONS[sight.facing]
    return (
        dict(zip(names[:4], sight.items[:4], strict=True)),
        {name: number for name, number in zip(names[4:], sight.items[4:], strict=True) if number},
        sight.sleeping,
        148 <= sight.steps % 300 <= 272,
        kinds[CENTER],
        sight.facing,
        kinds[CENTER + dx + dy * ACROSS] or "edge of the world",
        seen,
    )


@examples(60)
@given(sights)
def test_the_words_read_back_are_the_moment(sight):
    text = describe(sight)
    found, wanted = list(read(text)), list(told(sight))
    found[6] = found[6].removeprefix("the ")
    assert found == wanted
    places = [abs(x) + abs(y) for (x, y), _ in found[7].values()]
    assert places == sorted(places)
    assert describe(replace(sight)) == text


def test_a_played_game_reads_back():
    live, rng = new_game(4), random.Random(7)
    dark = 0
    for _ in range(200):
        sight = live.act(rng.choice("bcdefffgh")).sight
        live._player.health = 9
        found = list(read(describe(sight)))
        found[6] = found[6].removeprefix("the ")
        assert found == list(told(sight))
        dark += found[3]
    assert dark > 40


BARE = CrafterSight("." * CELLS, " " * CELLS, "left", (9, 9, 9, 9) + (0,) * 12, False, 0, ())


def with_items(**numbers):
    return replace(BARE, items=tuple(numbers.get(name, 9 * (n < 4)) for n, name in enumerate(rules().items)))


def placed(sight, mark, dx, dy):
    cell = CENTER + dx + dy * ACROSS
    if mark in THINGS.values():
        return replace(sight, things=sight.things[:cell] + mark + sight.things[cell + 1 :])
    return replace(sight, ground=sight.ground[:cell] + mark + sight.ground[cell + 1 :])


def test_the_wording():
    sight = placed(placed(placed(BARE, "T", -1, 0), "T", 2, -1), "C", 0, 3)
    sight = replace(placed(sight, "<", 4, 0), sleeping=True, steps=200)
    assert describe(sight).split("\n") == [
        "You have health 9, food 9, drink 9 and energy 9, of 9 each.",
        "You carry nothing.",
        "You are asleep until your energy is full, or something hurts you.",
        "It is dark.",
        "You stand on grass and look left, at a tree.",
        "In sight, the nearest of each kind:",
        "- grass 1 step up (58 in sight)",
        "- a tree 1 step left (2 in sight)",
        "- a cow 3 steps down",
        "- an arrow flying left 4 steps right",
    ]
    rich = replace(with_items(wood=3, iron_sword=1, health=2), unlocked=("collect_wood", "place_table"))
    lines = describe(rich, tells_unlocked=True).split("\n")
    assert lines[:2] == [
        "You have health 2, food 9, drink 9 and energy 9, of 9 each.",
        "You carry 3 wood and 1 iron sword.",
    ]
    assert lines[-1] == "Achievements, 2 of 22: collect wood and place table."
    assert describe(BARE, tells_unlocked=True).endswith("\nAchievements, 0 of 22: none.")


def test_a_thing_hides_its_ground_and_the_edge_is_told():
    sight = placed(placed(BARE, "~", 1, 0), "Z", 1, 0)
    assert "water" not in nearest(sight) and nearest(sight)["zombie"] == ((1, 0), 1)
    assert faced(replace(sight, facing="right")) == "zombie"
    edge = placed(BARE, OUTSIDE, -1, 0)
    assert faced(edge) == "" and "look left, at the edge of the world." in describe(edge)


@each_row(
    ("action", "items", "mark", "why"),
    [
        ("do", {}, "#", "To collect stone you need a wood pickaxe."),
        ("do", {"wood_pickaxe": 1}, "#", ""),
        ("do", {}, "d", "To collect diamond you need an iron pickaxe."),
        ("do", {}, "T", ""),
        ("do", {}, "Z", ""),
        ("place_table", {"wood": 1}, ".", "To place a table you need 2 wood."),
        ("place_table", {"wood": 2}, "~", "You can place a table only on free grass, sand or path."),
        ("place_stone", {}, ".", "To place stone you need 1 stone."),
        ("place_plant", {"sapling": 1}, ":", "You can place a plant only on free grass."),
        ("make_wood_pickaxe", {}, ".", "To make a wood pickaxe you need 1 wood."),
        ("make_wood_pickaxe", {"wood": 1}, ".", "To make a wood pickaxe you must stand next to a table."),
        (
            "make_iron_sword",
            {"wood": 1, "coal": 1, "iron": 1},
            ".",
            "To make an iron sword you must stand next to a table and a furnace.",
        ),
        ("make_iron_sword", {"wood": 1}, ".", "To make an iron sword you need 1 wood, 1 coal and 1 iron."),
        ("sleep", {}, ".", "You are fully rested and cannot sleep."),
        ("noop", {}, ".", ""),
        ("move_left", {}, "~", ""),
    ],
)
def test_what_an_action_would_need(action, items, mark, why):
    assert unmet(action, placed(with_items(**items), mark, -1, 0)) == why


def test_lists():
    assert [listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
    assert listed(["a", "b"], "or") == "a or b"
