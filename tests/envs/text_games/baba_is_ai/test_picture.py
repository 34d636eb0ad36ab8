import xml.etree.ElementTree as ElementTree

from agent_envs.envs.text_games.baba_is_ai.levels import KINDS, BabaSource
from agent_envs.envs.text_games.baba_is_ai.picture import CELL, drawing, picture
from agent_envs.envs.text_games.baba_is_ai.rules import WORDS, moved
from agent_envs.envs.text_games.baba_is_ai.solver import plan
from tests.envs.text_games.baba_is_ai.boards import after, board

SVG = "{http://www.w3.org/2000/svg}"


def test_every_kind_is_drawn_small_and_sound():
    for index in range(len(KINDS)):
        world = BabaSource().get("test", index).data.world
        text = picture(world)
        root = ElementTree.fromstring(text)
        assert root.tag == SVG + "svg" and root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
        words = [node.text for node in root.iter(SVG + "text")]
        assert sorted(word.lower() for word in words if word.isupper()) == sorted(
            WORDS[letter] for letter in world.texts if letter in WORDS
        )
        assert len(text) < 6_000 and "<script" not in text and "href" not in text
        assert text == picture(moved(world, 0))


def test_frames_show_who_is_you_and_what_is_win():
    world = board("BABA IS YOU .", "KEY IS WIN .", "baba . key .")
    gold, white = (f'stroke="{color}" stroke-width="2" d="M' for color in ("#ffcf3f", "#fff"))
    assert gold + f"{2 * CELL} {2 * CELL}m" in picture(world)
    assert white + f"0 {2 * CELL}m" in picture(world)
    assert 'stroke="#ffcf3f"' not in picture(board("BABA IS YOU", "baba . key"))


def test_words_of_a_rule_are_bright():
    assert picture(board("BABA IS YOU .", "baba . . KEY")).count('stroke="#8b90a0"') == 1
    assert "no rule" in picture(board("BABA . YOU"))


def test_a_plan_changes_the_picture_at_every_step():
    world = BabaSource("two_room-make_you").get("test", 0).data.world
    steps = plan(world)
    assert len({picture(after(world, *steps[:done])) for done in range(len(steps) + 1)}) == len(steps) + 1


def test_letters_for_a_terminal():
    world = board("BABA IS YOU .", "WALL IS KEY wall+ball", "baba+key . STOP+door .")
    assert (
        drawing(world)
        == """\
+--------------------+
|BABA IS   YOU    .  |
|WALL IS   KEY  ball+|
|baba+  .  STOP+  .  |
+--------------------+
rules: baba is you"""
    )
    assert drawing(board("IS .")).endswith("rules: none")
