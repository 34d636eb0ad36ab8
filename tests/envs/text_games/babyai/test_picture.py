"""The pictures: well-formed, equal for equal states, true to the state."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.envs.text_games.babyai.grid import EMPTY, UNSEEN, WALL, identity, visible
from agent_envs.envs.text_games.babyai.picture import CELL, drawing, picture
from tests.envs.text_games.babyai.rooms import clause, drawn, random_world
from tests.examples import examples
from tests.needs import needs

SVG = "{http://www.w3.org/2000/svg}"
RUN = re.compile(r"M(\d+) (\d+)h(\d+)v(\d+)h-(\d+)z")
ROOM = drawn(
    ["######", "#a  b#", "# >  d", "#  c #", "######"],
    {"a": "red key", "b": "grey ball", "c": "red box", "d": "locked blue door", "k": "green key"},
    clause("pickup", "red box"),
    carrying="k",
)


def parsed(world):
    return ElementTree.fromstring(picture(world))


def paths(root, ink):
    return [path.get("d") for path in root.iter(f"{SVG}path") if path.get("fill") == ink]


def cells_of(path, width):
    """The cells that runs of rectangles cover."""
    cells = set()
    for run in RUN.findall(path):
        x, y, right, down, left = map(int, run)
        assert down == CELL and right == left
        cells |= {y // CELL * width + x // CELL + step for step in range(right // CELL)}
    return cells


def test_it_stands_alone():
    text = picture(ROOM)
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SVG}svg"
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
    assert {child.tag.removeprefix(SVG) for child in root.iter()} == {"svg", "style", "rect", "g", "path", "text"}
    assert "href" not in text and "url(" not in text
    assert picture(replace(ROOM)) == text


def test_things_have_their_colors_and_places():
    root = parsed(ROOM)
    starts = re.findall(r"M(\d+) (\d+)", "".join(paths(root, "#d3403f")))
    assert [(int(x) // CELL, int(y) // CELL) for x, y in starts] == [(1, 1), (3, 3)]
    assert len(paths(root, "#3a6cd0")) == len(paths(root, "#858b95")) == 1
    assert paths(root, "#3d9a4c") == []  # the key in hand is in the caption


def test_states_and_facings_look_different():
    shut = [picture(replace(ROOM, facing=facing)) for facing in range(4)]
    doors = [
        picture(replace(ROOM, things=(*ROOM.things[:3], replace(ROOM.things[3], state=state), ROOM.things[4])))
        for state in ("open", "closed", "locked")
    ]
    assert len(set(shut)) == 4 and len(set(doors)) == 3


def test_the_caption_tells_mission_hand_and_steps():
    lines = [text.text for text in parsed(replace(ROOM, steps=7)).iter(f"{SVG}text")]
    assert lines == ["pick up the red box", "carrying a green key, step 7 of 200"]
    nothing = replace(ROOM, carrying=-1)
    assert [text.text for text in parsed(nothing).iter(f"{SVG}text")][1] == "step 0 of 200"


def test_the_caption_is_escaped():
    mission = ROOM.instructions
    hostile = replace(ROOM, instructions=replace(mission, thing=replace(mission.thing, color='</text><script>&"')))
    assert "<script" not in picture(hostile)
    assert next(parsed(hostile).iter(f"{SVG}text")).text == 'pick up the </text><script>&" box'


@given(st.integers(0, 1_000_000))
@examples(60)
def test_walls_are_drawn_and_what_is_out_of_view_is_dimmed(seed):
    world = random_world(seed)
    walls, dark = paths(parsed(world), "#575d68")
    assert cells_of(walls, world.width) == {at for at, content in enumerate(world.cells) if content == WALL}
    dim = cells_of(dark, world.width)
    assert world.place not in dim
    bright = [c for at, c in enumerate(world.cells) if at not in dim and c != WALL and at != world.place]
    own = visible(world)[45]
    seen = visible(world).replace(UNSEEN, "").replace(WALL, "").replace(own, "", 1)
    # The same things are bright as in view; the agent's own cell is in both, with what it carries in the view.
    assert sorted(bright) == sorted(seen)


def test_the_drawing_is_the_level():
    assert drawing(replace(ROOM, steps=3)).split("\n") == [
        "############",
        "##Kr . .Oe##",
        "##  >> . .!b",
        "##   .Br .##",
        "############",
        ">> you, . what you see, !b a locked blue door, Br a red box, Kr a red key, Oe",
        "a grey ball",
        "pick up the red box",
        "carrying a green key, step 3 of 200",
    ]


@given(st.integers(0, 1_000_000))
@examples(60)
def test_drawings_are_plain_and_name_all_that_stands_there(seed):
    world = random_world(seed)
    text = drawing(world)
    assert text.isascii() and text.replace("\n", "").isprintable()
    assert all(len(line) <= 78 for line in text.split("\n"))
    rows = text.split("\n")[: world.height]
    for at, content in enumerate(world.cells):
        y, x = divmod(at, world.width)
        pair = rows[y].ljust(2 * world.width)[2 * x : 2 * x + 2]
        if at == world.place:
            assert pair == ">v<^"[world.facing] * 2
        elif content == WALL:
            assert pair == "##"
        elif content == EMPTY:
            assert pair in ("  ", " .")
        else:
            assert world.things[identity(content)].color in text and pair.isprintable() and pair[1].islower()


@pytest.mark.parametrize(("name", "most"), [("GoToLocal", 2_500), ("BossLevel", 6_500), ("OneRoomS20", 2_500)])
@needs("[babyai]")
def test_pictures_stay_small(name, most):
    from agent_envs.envs.text_games.babyai.levels import named_level

    sizes = [len(picture(named_level(name).world(seed)).encode()) for seed in range(5)]
    assert max(sizes) <= most
