"""Pictures of states beside the turns: every state of an episode, bounded, the same bytes, and nothing in them gets out."""

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import pytest

from agent_envs import register_companions
from agent_envs.base.jsonl_log import Journal, read_journal
from agent_envs.base.serialization import canonical_json
from agent_envs.core.env import Episode
from agent_envs.core.trajectory import Trajectory
from agent_envs.evaluation.html import rendered_states as pictures
from agent_envs.evaluation.html import replayed_view as view_lanes
from agent_envs.evaluation.html import view
from agent_envs.evaluation.html.page import Page, Transcript, draw, render, write_page
from agent_envs.evaluation.html.rendered_states import Painter, data_url, draws, fit_pictures
from agent_envs.evaluation.html.view import write_view
from agent_envs.evaluation.runs.evaluate import evaluate
from agent_envs.evaluation.runs.run_folder import Settings
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.rollout.episode_runner import replay, run_episode
from agent_envs.rollout.policy import CompanionPolicy
from tests.evaluation.html.test_conversation_html import Told, told
from tests.evaluation.html.test_page import Reader
from tests.evaluation.html.test_view import texts
from tests.hostile_texts import EVERYTHING, MARKUP, episode
from tests.toy import Guess, solver

PICTURED, BOTH, BROKEN, PLAIN = (f"toy/{name}-v0" for name in ("Pictured", "PicturedLanes", "Broken", "Bare"))
SVG: dict[str, Any] = {"render_modes": ["ansi", "svg"], "render_fps": 1}


def svg_of(turn: int, more: str = "") -> str:
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><text>turn {turn}{more}</text></svg>'


class Pictured(Guess):
    """Guess with pictures."""

    metadata: ClassVar[dict[str, Any]] = SVG

    def _picture(self, episode: Episode) -> str:
        return svg_of(len(episode.turns))


class PicturedLanes(Told):
    """ConversationView and pictures."""

    metadata: ClassVar[dict[str, Any]] = SVG

    def _picture(self, episode: Episode) -> str:
        return svg_of(len(episode.turns))


class Broken(Pictured):
    """Its second picture fails."""

    def _picture(self, episode: Episode) -> str:
        if episode.turns:
            raise KeyError("/secret/folder")
        return super()._picture(episode)


for cls in (Pictured, PicturedLanes):
    register_companions(
        cls, solver=lambda env: "<compare>50</compare>" if not env.unwrapped.episode.turns else solver(env)
    )
register_companions(PicturedLanes, conversation_view=told)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    made = {PICTURED: Pictured, BOTH: PicturedLanes, BROKEN: Broken, PLAIN: Guess}
    for name, kind in made.items():
        gym.register(id=name, entry_point=f"{__name__}:{kind.__name__}")
    yield
    for name in made:
        gym.registry.pop(name, None)


def pictures_of(env: Any, trajectory: Trajectory) -> tuple[str, ...]:
    """The pictures of an episode that is stepped again."""
    painter = Painter(env, len(trajectory.turns))
    replay(painter, trajectory)
    return tuple(painter.pictures)


def played(folder: Path, env_id: str = PICTURED, limit: int = 2) -> Path:
    evaluate(adhoc_suite(Choice(env_id, limit=limit)), Settings("solver"), folder=folder / "run")
    return folder / "run"


def shown(folder: Path) -> str:
    write_view(folder / "run", folder / "view")
    return texts(folder / "view")["pages/0001.html"]


def images(html: str) -> list[tuple[str, str]]:
    """The words and the texts of the images of a page."""
    found = []
    for tag, row in Reader(html).elements:
        if tag == "img":
            assert set(row) == {"class", "alt", "src"} and row["class"] == "state"
            head, _, body = str(row["src"]).partition(",")
            assert head == "data:image/svg+xml;base64"
            found.append((str(row["alt"]), base64.b64decode(body, validate=True).decode()))
    return found


WORDS = ["the state at the start", "the state after turn 1", "the state after turn 2"]


def test_every_state_stands_beside_its_turn(tmp_path: Path) -> None:
    played(tmp_path)
    html = shown(tmp_path)
    assert images(html) == [(words, svg_of(turn)) for turn, words in enumerate(WORDS)] * 2
    for part in re.split('(?=<section class="turn)', html)[1:]:
        turn = int(re.search(r'id="e\d+-t(\d+)"', part)[1])  # type: ignore[index]
        assert part.startswith('<section class="turn pictured"') and data_url(svg_of(turn)) in part
    policy = re.search('http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert policy and "img-src data:;" in policy[1] and "default-src 'none'" in policy[1]
    index = texts(tmp_path / "view")["index.html"]
    assert "<img" not in index and "img-src" not in index


def test_two_views_are_equal_bytes(tmp_path: Path) -> None:
    run = played(tmp_path)
    shown(tmp_path)
    write_view(run, tmp_path / "again")
    assert texts(tmp_path / "again") == texts(tmp_path / "view")


def test_an_environment_without_pictures_is_shown_as_ever(tmp_path: Path) -> None:
    played(tmp_path, PLAIN)
    html = shown(tmp_path)
    assert "<img" not in html and "img-src" not in html and "pictured" not in html.partition("</style>")[2]
    assert not draws(gym.make(PLAIN))


def test_lanes_go_before_pictures(tmp_path: Path) -> None:
    played(tmp_path, BOTH)
    html = shown(tmp_path)
    assert html.count("Only lanes tell this.") == 2 and images(html) == [] and "left out" not in html


def test_an_episode_that_is_another_one_here_has_no_pictures_and_says_why(tmp_path: Path) -> None:
    path = played(tmp_path) / "journal.jsonl"
    rows = [canonical_json(row) for row in read_journal(path)]
    rows[1] = rows[1].replace("Right.", "Wright.")
    path.unlink()
    with Journal(path) as journal:
        for row in rows:
            journal.append(json.loads(row))
    html = shown(tmp_path)
    assert len(images(html)) == 3 and "Wright." in html
    why = "No pictures are shown, as the episode could not be stepped again: turn 2: observation was"
    assert Reader(html).text.count(why) == 1


def test_a_picture_that_cannot_be_drawn_costs_no_page(tmp_path: Path) -> None:
    played(tmp_path, BROKEN)
    html = shown(tmp_path)
    assert images(html) == [] and "/secret/folder" not in html
    assert html.count("the picture of turn 1 cannot be drawn (KeyError)") == 2


def test_all_pages_together_have_room_for_so_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "PICTURE_BYTES", 1)
    played(tmp_path, limit=3)
    html = shown(tmp_path)
    assert len(images(html)) == 3 and html.count(view_lanes.FULL) == 2


def transcript(pictures: tuple[str, ...], turns: int = 2, text: str = "word") -> Transcript:
    play = episode(lambda word: word)
    row = tuple(replace(play.turns[0], index=n + 1, action=text, results=()) for n in range(turns))
    return Transcript("e1", "an episode", (), replace(play, turns=row), pictures=pictures)


def test_pictures_that_do_not_fit_are_left_out_from_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tuple(svg_of(turn) for turn in range(10))
    size = len(data_url(rows[0])) + pictures.AROUND
    found, missing = fit_pictures(rows, range(10), 3 * size)
    assert (sorted(found), missing) == ([0, 1, 9], 7)
    assert found[9] == data_url(rows[9])
    assert fit_pictures(rows, range(10), 10 * size) == ({turn: data_url(rows[turn]) for turn in range(10)}, 0)
    assert fit_pictures(rows, range(10), 0) == ({}, 10) and fit_pictures((), range(10), 10**9) == ({}, 0)
    assert fit_pictures(("", ""), range(2), 10**9) == ({}, 0) and fit_pictures((rows[0], ""), range(2), 10**9)[1] == 1
    monkeypatch.setattr(pictures, "MOST_BYTES", size)
    assert fit_pictures(rows, range(10), 10**9)[1] == 9


def test_a_transcript_keeps_its_bytes_and_says_what_is_left_out() -> None:
    rows = tuple(svg_of(turn, "x" * 2_000) for turn in range(101))
    whole = draw(transcript(rows, 100))
    assert len(images(whole.html)) == 101 and "left out" not in whole.html
    assert whole.picture_bytes == sum(len(data_url(row)) for row in rows)
    plain = len(draw(transcript((), 100)).html.encode())
    bounded = draw(transcript(rows, 100), plain + 10_000)
    assert len(bounded.html.encode()) <= plain + 10_000
    assert len(images(bounded.html)) == 3 and "98 pictures are left out: the page would be too large." in bounded.html
    none = draw(transcript(rows, 100), plain + 500)
    assert "101 pictures are left out" in none.html and images(none.html) == [] and none.picture_bytes == 0
    one = draw(transcript((svg_of(0), svg_of(1), ""), 2))
    assert "1 picture is left out" in one.html


def test_texts_go_before_pictures() -> None:
    rows = tuple(svg_of(turn) for turn in range(101))
    drawn = draw(transcript(rows, 100, "long " * 5_000), 700_000)
    assert len(drawn.html.encode()) <= 700_000 and "Cut here: the text has 25,000 characters." in drawn.html
    turns = [int(words.rpartition(" ")[2]) for words, _ in images(drawn.html)[1:]]
    assert turns and all(f'id="e1-t{turn}"' in drawn.html for turn in turns)


def test_an_episode_is_drawn_at_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    env = gym.make(PICTURED)
    result = run_episode(env, CompanionPolicy("solver"), seed=0)
    assert pictures_of(env, result.trajectory) == tuple(map(svg_of, range(3)))
    monkeypatch.setattr(pictures, "MOST_PICTURES", 2)
    assert pictures_of(env, result.trajectory) == (svg_of(0), "", svg_of(2))
    monkeypatch.setattr(pictures, "LARGEST", 10)
    assert pictures_of(env, result.trajectory) == ("", "", "")
    painter = Painter(env, 5)
    painter.reset(seed=0)
    assert painter.reset(seed=1)[1]["turn"] == 0 and len(painter.pictures) == 1


def test_a_page_of_ones_own_takes_pictures(tmp_path: Path) -> None:
    env = gym.make(PICTURED)
    play = run_episode(env, CompanionPolicy("solver"), seed=0).trajectory
    write_page(
        tmp_path / "page.html",
        Page("t", "", transcripts=(Transcript("e1", "t", (), play, pictures=pictures_of(env, play)),)),
    )
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert [words for words, _ in images(html)] == WORDS and "img-src data:" in html


def test_expanded_actions_show_the_state_at_the_end_of_a_stretch() -> None:
    play = transcript(()).trajectory
    turns = tuple(replace(play.turns[0], index=n, action=n, reward=0.0, terms=()) for n in (1, 2, 3))
    item = replace(transcript(tuple(map(svg_of, range(4)))), trajectory=replace(play, turns=turns))
    assert [words for words, _ in images(draw(item).html)] == ["the state at the start", "the state after turn 3"]


@pytest.mark.parametrize("name", EVERYTHING)
def test_hostile_pictures_and_episodes_stay_inside(name: str) -> None:
    text = EVERYTHING[name][:50_000]
    item = Transcript(
        "e1", text, ((text, text),), episode(lambda word: word + text), pictures=(text, f"<svg>{text}</svg>", "")
    )
    html = render(Page("t", "", transcripts=(draw(item, 2_500_000),))).decode()
    reader = Reader(html)
    assert not {"script", "iframe", "svg", "form", "object"} & {tag for tag, _ in reader.elements}
    assert not any(key.startswith("on") or key == "style" for _, row in reader.elements for key in row)
    clean = text.encode("utf-8", "replace").decode()
    assert images(html) == [(WORDS[0], clean), (WORDS[1], f"<svg>{clean}</svg>")]
    if name in MARKUP:
        assert html.count("<style>") == 1
