"""Conversations in lanes: what a page is made of, how it is bounded, and when only the policy's side can be shown."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from agent_envs import register_companions
from agent_envs.base.errors import UsageError
from agent_envs.base.jsonl_log import Journal, read_journal
from agent_envs.base.messages import Message
from agent_envs.base.serialization import canonical_json
from agent_envs.core.conversation_view import ConversationView, Participant, ViewCheck, ViewEntry
from agent_envs.core.env import Episode, Outcome
from agent_envs.evaluation.html.message_html import LONGEST_HEAD, MOST_CHECKS, MOST_ENTRIES, ConversationPage
from agent_envs.evaluation.html.page import Page, Transcript, draw, render
from agent_envs.evaluation.html.view import write_view
from agent_envs.evaluation.runs.evaluate import evaluate
from agent_envs.evaluation.runs.run_folder import Settings, open_run
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.services.recording import CallSite, ExternalPort
from tests.evaluation.html.test_page import Reader
from tests.evaluation.html.test_view import FORBIDDEN, checked, texts
from tests.hostile_texts import EVERYTHING, HOSTILE, episode
from tests.toy import Guess, solver

SIDES = (Participant("agent", "played by the policy"), Participant("customer", "simulated"))
ID, SILENT, ASKING = "toy/ConversationView-v0", "toy/Silent-v0", "toy/Asking-v0"


class Told(Guess):
    """Guess with lanes."""


class Asking(Guess):
    """Guess in which every turn asks a service for its opinion."""

    def _advance(self, episode: Episode, action: str) -> Outcome:
        port = ExternalPort("opinion", self.asked, recording=self.services.recording)
        said = port.call({"action": action}, CallSite(episode.key, episode.header.branch, len(episode.turns)))
        outcome = super()._advance(episode, action)
        return replace(outcome, observation=(*outcome.observation, Message("user", said, "user")))

    def asked(self, request: Any, seconds: float) -> str:
        LIVE.append(request)
        return "Hear, hear."


LIVE: list[Any] = []


def told(env: gym.Env[Any, Any]) -> ConversationView:
    core = env.unwrapped
    assert isinstance(core, Guess)
    entries = [ViewEntry("customer", "words", text="Only lanes tell this.")]
    for turn in core.episode.turns:
        call = ViewEntry("agent", "call", "guess", f'text="{turn.action}"', turn=turn.index)
        entries += [call, ViewEntry("agent", "result", "guess", f"turn {turn.index}", turn=turn.index)]
    return ConversationView(
        SIDES, tuple(entries), (("score", "1"),), (ViewCheck("Expected", "the number", "found", True),)
    )


register_companions(Told, solver=solver, conversation_view=told)
register_companions(Asking, solver=solver, conversation_view=told)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    LIVE.clear()
    for name, made in ((ID, Told), (SILENT, Guess), (ASKING, Asking)):
        gym.register(id=name, entry_point=f"{__name__}:{made.__name__}")
    yield
    for name in (ID, SILENT, ASKING):
        gym.registry.pop(name, None)


def viewed(tmp_path: Path, env_id: str, **arguments: Any) -> tuple[Path, str]:
    suite = adhoc_suite(Choice(env_id, arguments=arguments, limit=2))
    evaluate(suite, Settings("solver"), folder=tmp_path / "run")
    return tmp_path / "run", shown(tmp_path)


def shown(tmp_path: Path) -> str:
    write_view(tmp_path / "run", tmp_path / "view")
    return checked(tmp_path / "view")["pages/0001.html"].text


def test_lanes_have_names_and_entries_belong_to_them() -> None:
    for lanes in ((), (Participant(""),), (Participant("a"), Participant("a")), tuple(map(Participant, "abc"))):
        with pytest.raises(UsageError, match="1 to 2 participants"):
            ConversationView(lanes, ())
    with pytest.raises(UsageError, match="an entry is of 'x'"):
        ConversationView((Participant("a"),), (ViewEntry("x", "words"),))
    assert ConversationView((Participant("a"),), (ViewEntry("", "note"),)).checks == ()


def test_what_a_side_does_without_another_between_stands_together() -> None:
    long = ", ".join(f"name_{n}=1" for n in range(100))
    entries = (
        ViewEntry("agent", "words", text="Hello.", turn=1),
        ViewEntry("agent", "call", "look", "a=1", turn=1),
        ViewEntry("agent", "result", "look", "found", turn=1),
        ViewEntry("agent", "change", "orders 7", "status: a → b", turn=1),
        ViewEntry("customer", "call", "press", long, turn=1),
        ViewEntry("customer", "words", text="Done.", turn=1),
        ViewEntry("", "note", "Over.", turn=1),
        ViewEntry("agent", "words", text="Next.", turn=2),
    )
    talk = ConversationPage(ConversationView(SIDES, entries))
    first, second, third = talk.voices(1)[0]
    assert [(voice.name, voice.column) for voice in (first, second, third)] == [
        ("agent", "left"), ("customer", "right"), ("", "across")
    ]  # fmt: skip
    assert [item.entry.kind for item in first.items] == ["words", "call", "change"]
    assert first.items[1].result == entries[2] and first.items[1].head == "a=1"
    assert second.items[0].result is None and len(second.items[0].head) == LONGEST_HEAD + 1
    assert [voice.name for voice in talk.voices(2)[0]] == ["agent"] and talk.voices(3)[0] == ()


def test_a_turn_and_the_checks_are_bounded_and_say_so() -> None:
    entries = tuple(ViewEntry(("agent", "customer")[n % 2], "words", text=str(n)) for n in range(MOST_ENTRIES + 7))
    checks = tuple(ViewCheck("g", str(n), "held", True) for n in range(MOST_CHECKS + 3))
    talk = ConversationPage(ConversationView(SIDES, entries, checks=checks))
    (voices, more), (groups, unchecked) = talk.voices(0), talk.check_groups()
    assert (len(voices), more) == (MOST_ENTRIES, 7)
    assert [len(part) for _, part in groups] == [MOST_CHECKS] and unchecked == 3
    page = Reader(draw(_transcript(ConversationView(SIDES, entries, checks=checks))).html)
    assert "7 more entries of this turn are left out here." in page.text
    assert "3 more checks are left out here." in page.text


def _transcript(lanes: ConversationView, text: str = "") -> Transcript:
    play = episode(lambda word: word + text)
    turns = (play.turns[0], replace(play.turns[1], action="so be it"))
    return Transcript("e1", "an episode", (), replace(play, turns=turns), conversation=lanes)


def everywhere(text: str) -> ConversationView:
    """ConversationView that say a text wherever a text can stand."""
    sides = (Participant(f"agent{text}", text), Participant(f"customer{text}", text))
    entries = []
    for turn in (0, 1, 2):
        for side in (*(lane.name for lane in sides), ""):
            entries += [
                ViewEntry(side, "words", text, text, turn=turn),
                ViewEntry(side, "call", text, text, turn=turn),
                ViewEntry(side, "result", text, text, bool(turn), turn),
                ViewEntry(side, "call", text, text, True, turn),
                ViewEntry(side, "change", text, text, turn=turn, mark=text),
                ViewEntry(side, "note", text, text, bool(turn), turn),
                ViewEntry(side, "note", text, "", True, turn),
                ViewEntry(side, "note", "", text, turn=turn),
            ]
    checks = tuple(ViewCheck(text, text, text, holds) for holds in (True, False, None))
    return ConversationView(sides, tuple(entries), ((text, text),), checks)


@pytest.mark.parametrize("name", EVERYTHING)
def test_hostile_texts_stay_texts(name: str) -> None:
    text = EVERYTHING[name]
    html = render(Page("t", "", transcripts=(draw(_transcript(everywhere(text)), 2_500_000),))).decode()
    reader = Reader(html)
    assert len(html) < 3_000_000 and not FORBIDDEN.search(html)
    known = {"article", "section", "details", "summary", "div", "span", "strong", "code", "wbr", "ul", "li", "p", "ol"}
    tags = [tag for tag, _ in reader.elements]
    assert set(tags[tags.index("article") :]) <= known | {"header", "h3", "h4", "h5", "a", "dl", "dt", "dd", "nav"}
    assert not any(key.startswith("on") or key in ("style", "src") for _, row in reader.elements for key in row)
    assert html.count("<style>") == html.count("</style>") == html.count("</title>") == 1
    if name in ("script", "attribute", "template", "markdown", "entities"):
        assert reader.text.count(HOSTILE[name]) > 50


def test_large_lanes_are_cut_and_say_so() -> None:
    entries = tuple(ViewEntry("agent", "words", text="word " * 60_000, turn=n % 3) for n in range(60))
    drawn = draw(_transcript(ConversationView(SIDES, entries)), 500_000)
    assert len(drawn.html.encode()) <= 500_000
    assert "Cut here: the text has 300,000 characters." in Reader(drawn.html).text


def test_a_run_shows_the_lanes_of_its_episodes(tmp_path: Path) -> None:
    _, text = viewed(tmp_path, ID)
    assert text.count("Only lanes tell this.") == 2 and "played by the policy" in text
    assert "What the policy was shown before its first turn" in text and "Guess the number." in text
    assert text.index("guess(text=") < text.index("turn 1") < text.index("found")
    page = Reader(texts(tmp_path / "view")["pages/0001.html"])
    folds = [tag for tag, _ in page.elements if tag == "details"]
    assert len(folds) == 4 and not any("open" in row for _, row in page.elements)
    assert {"e1-t0", "e1-t1", "e2-t1"} <= {row["id"] for _, row in page.elements if "id" in row}


def test_an_environment_without_lanes_is_shown_as_ever(tmp_path: Path) -> None:
    _, text = viewed(tmp_path, SILENT)
    assert "Only" not in text and "could not be stepped again" not in text


def test_an_episode_that_is_another_one_here_is_shown_plainly_with_one_line_that_says_why(tmp_path: Path) -> None:
    folder, _ = viewed(tmp_path, ID)
    path = folder / "journal.jsonl"
    rows = [canonical_json(row) for row in read_journal(path)]
    assert "Right." in rows[1]
    rows[1] = rows[1].replace("Right.", "Wright.\\n\\nAnd more.")
    path.unlink()
    with Journal(path) as journal:
        for row in rows:
            journal.append(json.loads(row))
    text = shown(tmp_path)
    assert text.count("Only lanes tell this.") == 1
    why = "Only the policy's side is shown, as the episode could not be stepped again: turn 1: observation was"
    assert text.count(why) == 1
    assert "Wright." in text


def test_an_environment_that_cannot_be_made_is_named_by_its_error_alone(tmp_path: Path) -> None:
    folder, _ = viewed(tmp_path, ID, turns=4)
    gym.registry.pop(ID)
    gym.register(id=ID, entry_point=f"{__name__}:Refusing")
    text = shown(tmp_path) + checked(tmp_path / "view")["index.html"].text
    assert "its environment cannot be made here (UsageError)" in text and "/secret/folder" not in text
    assert "Only lanes tell this." not in text and open_run(folder).suite.entries[0].arguments == {"turns": 4}


class Refusing(Told):
    """Told on a machine that lacks something."""

    def __init__(self, **arguments: Any) -> None:
        raise UsageError("Guess: /secret/folder is not there")


def test_services_are_replayed_and_never_asked(tmp_path: Path) -> None:
    folder, text = viewed(tmp_path, ASKING)
    assert len(LIVE) == 2 and (folder / "externals.jsonl").is_file()
    assert text.count("Only lanes tell this.") == 2
    (folder / "externals.jsonl").unlink()
    text = shown(tmp_path)
    assert len(LIVE) == 2 and text.count("opinion: no recording for request") == 2
    assert "Only lanes tell this." not in text and text.count("Hear, hear.") == 2
    (folder / "externals.jsonl").write_text("damaged\n" * 3)
    text = shown(tmp_path) + checked(tmp_path / "view")["index.html"].text
    assert len(LIVE) == 2 and text.count("recorded answers cannot be read") == 1 and str(tmp_path) not in text
    assert "Only lanes tell this." not in text and text.count("Hear, hear.") == 2


def test_two_views_of_lanes_are_equal_bytes(tmp_path: Path) -> None:
    folder, _ = viewed(tmp_path, ID)
    write_view(folder, tmp_path / "again")
    assert texts(tmp_path / "again") == texts(tmp_path / "view")
