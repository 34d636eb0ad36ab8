"""A run as pages: everything is there and linked, failures first, bounded, the same bytes, and nothing foreign is touched."""

import posixpath
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import pytest

from agent_envs.base.errors import UsageError
from agent_envs.core.trajectory import Header, Task
from agent_envs.evaluation.html.page import MARKER, LinkedPages, Page
from agent_envs.evaluation.html.replayed_view import ReplayReader
from agent_envs.evaluation.html.view import write_view
from agent_envs.evaluation.runs.evaluate import Result, evaluate
from agent_envs.evaluation.runs.run_folder import Settings
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.evaluation.suites.suite import Entry
from tests.evaluation.html.test_page import Reader
from tests.examples import part
from tests.hostile_texts import EVERYTHING, HOSTILE, hostile_run, plain_row, plain_suite, write_run
from tests.toy import Guess, Numbers

FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
MOST_BYTES = 3_000_000


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("played")
    suite = adhoc_suite(Choice("SearchQA", limit=6, trials=2))
    return folder, evaluate(suite, Settings("heuristic"), folder=folder)


def plain_run(folder: Path, tasks: int, solved: set[int] = frozenset(), *, trials: int = 1, entries: int = 1) -> Path:  # type: ignore[assignment]
    suite = plain_suite(tasks, trials, entries)
    rows = (plain_row(key, entry, task, int(task[-5:]) in solved) for key, entry, task, _, _ in suite.episodes())
    return write_run(folder, suite, rows).folder


def texts(target: Path) -> dict[str, str]:
    return {path.relative_to(target).as_posix(): path.read_bytes().decode() for path in sorted(target.rglob("*.html"))}


def checked(target: Path) -> dict[str, Reader]:
    """Read every page; each is bounded, has no script, and links to anchors that are there."""
    readers = {name: Reader(text) for name, text in texts(target).items()}
    anchors = {name: {a["id"] for _, a in reader.elements if "id" in a} for name, reader in readers.items()}
    for name, reader in readers.items():
        assert (target / name).stat().st_size < MOST_BYTES
        for tag, attributes in reader.elements:
            assert tag not in ("script", "iframe", "img", "object", "embed", "link", "base", "form", "input", "button")
            assert not any(key.startswith("on") or key in ("style", "src", "action") for key in attributes)
            if "href" in attributes:
                file, _, anchor = str(attributes["href"]).partition("#")
                place = posixpath.normpath(posixpath.join(posixpath.dirname(name), file)) if file else name
                assert (anchor or "top") in anchors[place], f"{name}: {attributes['href']}"
    return readers


def links(reader: Reader, start: str) -> list[str]:
    return [str(a["href"]) for _, a in reader.elements if str(a.get("href", "")).startswith(start)]


def test_every_episode_is_there_and_linked(played: tuple[Path, Result], tmp_path: Path) -> None:
    folder, result = played
    index = write_view(folder, tmp_path / "view")
    assert index == tmp_path / "view" / "index.html"
    readers = checked(tmp_path / "view")
    assert set(readers) == {"index.html", "pages/0001.html"}
    assert sorted(links(readers["index.html"], "pages/"), key=lambda href: int(href.split("#e")[1])) == [
        f"pages/0001.html#e{number}" for number in range(1, 13)
    ]
    text = readers["index.html"].text
    item = result.summaries[0]
    assert "heuristic on SearchQA-v0" in text and item.success.share in text
    assert text.count(item.success.basis) == 1  # what rates rest on stands once
    assert item.pass_hat[2].share in text and result.suite.digest()[:12] in text
    assert links(readers["pages/0001.html"], "../") == ["../index.html"] * 2
    assert "gold answers" in readers["pages/0001.html"].text
    assert {a["id"] for _, a in readers["pages/0001.html"].elements if "id" in a} >= {"e12", "e12-t0", "e12-t1"}


def test_the_tasks_with_the_fewest_solved_trials_come_first(tmp_path: Path) -> None:
    suite = plain_suite(4, trials=2)
    solved = {("task-00000", 0), ("task-00001", 0), ("task-00001", 1), ("task-00003", 1)}
    rows = [plain_row(key, entry, task, (task, trial) in solved) for key, entry, task, _, trial in suite.episodes()]
    write_run(tmp_path / "run", suite, reversed(rows))  # type: ignore[arg-type]
    write_view(tmp_path / "run", tmp_path / "view")
    order = [href.split("#")[1] for href in links(checked(tmp_path / "view")["index.html"], "pages/")]
    assert order == ["e5", "e6", "e1", "e2", "e7", "e8", "e3", "e4"]
    page = Reader(texts(tmp_path / "view")["pages/0001.html"])
    assert [a["id"] for tag, a in page.elements if tag == "article"] == order


def test_pages_hold_fifty_and_lead_to_each_other(tmp_path: Path) -> None:
    write_view(plain_run(tmp_path / "run", 120), tmp_path / "view")
    readers = checked(tmp_path / "view")
    counts = [sum(tag == "article" for tag, _ in readers[f"pages/000{number}.html"].elements) for number in (1, 2, 3)]
    assert counts == [50, 50, 20]
    assert links(readers["pages/0002.html"], "0") == ["0001.html", "0003.html"] * 2
    assert links(readers["pages/0003.html"], "0") == ["0002.html"] * 2
    assert "Transcripts 51 to 100 of 120." in readers["pages/0002.html"].text


def test_the_rows_of_many_episodes_have_pages_of_their_own(tmp_path: Path) -> None:
    write_view(plain_run(tmp_path / "run", 1_050, entries=2), tmp_path / "view", most=3)
    readers = checked(tmp_path / "view")
    numbers = range(1, 6)
    assert set(readers) == {"index.html", "pages/0001.html", *(f"episodes/000{number}.html" for number in numbers)}
    assert "#entry-" not in "".join(links(readers["index.html"], "#"))
    assert links(readers["index.html"], "episodes/")[:2] == ["episodes/0001.html#entry-1", "episodes/0003.html#entry-2"]
    rows = [sum(tag == "tr" for tag, _ in readers[f"episodes/000{number}.html"].elements) for number in numbers]
    assert rows == [500 + 1, 500 + 1, 500 + 2, 500 + 1, 100 + 1]
    assert [len(links(readers[f"episodes/000{number}.html"], "../pages/")) for number in numbers] == [2, 0, 1, 0, 0]
    assert "1 to 500" in readers["index.html"].text and "2,001 to 2,100" in readers["index.html"].text
    assert max(len(text) for text in texts(tmp_path / "view").values()) < 600_000


def test_most_takes_the_first_of_each_entry_and_says_so(tmp_path: Path) -> None:
    folder = plain_run(tmp_path / "run", 5, {0, 1}, entries=2)
    told: list[tuple[int, int, float]] = []
    write_view(folder, tmp_path / "view", most=5, progress=lambda *numbers: told.append(numbers))
    index = checked(tmp_path / "view")["index.html"]
    assert [href.split("#")[1] for href in links(index, "pages/")] == ["e3", "e4", "e5", "e8", "e9"]
    assert "5 of 10 transcripts are written" in index.text and "task-00001" in index.text
    assert told[0] == (1, 5, 0) and told[-1] == (5, 5, 0)
    with pytest.raises(UsageError, match="most=0"):
        write_view(folder, tmp_path / "other", most=0)


def test_equal_runs_are_equal_bytes(played: tuple[Path, Result], tmp_path: Path) -> None:
    for name in ("a", "b", "b"):
        write_view(played[0], tmp_path / name)
    assert texts(tmp_path / "a") == texts(tmp_path / "b")


def test_a_new_view_replaces_the_old_pages_and_no_other_file(tmp_path: Path) -> None:
    folder, target = plain_run(tmp_path / "run", 120), tmp_path / "view"
    write_view(folder, target)
    (target / "notes.txt").write_text("mine")
    (target / "pages" / "mine.html").write_text("mine")
    write_view(folder, target, most=60)
    assert set(texts(target)) == {"index.html", "pages/0001.html", "pages/0002.html", "pages/mine.html"}
    assert (target / "notes.txt").read_text() == (target / "pages" / "mine.html").read_text() == "mine"


def test_what_is_not_ours_is_refused(tmp_path: Path) -> None:
    folder = plain_run(tmp_path / "run", 2)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="not empty"):
        write_view(folder, folder)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="cannot hold pages"):
        write_view(folder, tmp_path / "file")
    with pytest.raises(UsageError, match="no folder of a run"):
        write_view(tmp_path / "nothing", tmp_path / "view")
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / "file"])
    write_view(folder, tmp_path / "view")
    (tmp_path / "view" / MARKER).write_text("pages/0001.html\n")
    with pytest.raises(UsageError, match="no page of an earlier view"):
        write_view(folder, tmp_path / "view")


def test_a_forged_list_of_pages_deletes_nothing_outside(tmp_path: Path) -> None:
    outside = tmp_path / "outside.html"
    outside.write_text("mine")
    target = tmp_path / "view"
    target.mkdir()
    (target / "index.html").symlink_to(outside)
    (target / MARKER).write_text(f"../outside.html\n{outside}\npages/../../outside.html\nindex.html\nc:/x.html\n")
    with pytest.raises(UsageError, match="no page of an earlier view"):
        write_view(plain_run(tmp_path / "run", 2), target)
    assert outside.read_text() == "mine"


def test_pages_have_plain_names(tmp_path: Path) -> None:
    site = LinkedPages(tmp_path / "site")
    for name in ("../x.html", "/x.html", "a/b/c.html", "x.htm", "X.html", ".html", "a\\b.html"):
        with pytest.raises(UsageError, match="no name of a page"):
            site.write(name, Page("t", ""))


def test_an_unfinished_run_tells_what_is_missing_and_what_failed(tmp_path: Path) -> None:
    suite = plain_suite(4)
    rows = [plain_row(key, entry, task, True) for key, entry, task, _, _ in suite.episodes()]
    key, result = rows[1]
    failed = replace(result, trajectory=replace(result.trajectory, prompt=(), turns=(), success=False))
    rows[1] = key, replace(failed, status="fault", fault="the judge is gone", attempts=("no answer", "no route"))
    write_run(tmp_path / "run", suite, iter(rows[:3]))
    write_view(tmp_path / "run", tmp_path / "view")
    readers = checked(tmp_path / "view")
    text = readers["index.html"].text
    assert "3 of 4 planned episodes" in text and "fault, 1 times: the judge is gone" in text
    assert '<span class="badge odd">fault</span>' in texts(tmp_path / "view")["index.html"]
    page = readers["pages/0001.html"].text
    assert "fault: the judge is gone" in page and "Attempt 2 failed: no route" in page
    assert (
        "questions, gold answers and what else" in text
        and "as its environment cannot be made here (UsageError)" in text
    )


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    texts = part(EVERYTHING, {**HOSTILE, "tags": EVERYTHING["tags"]})
    write_view(hostile_run(folder / "run", texts).folder, folder / "view")
    return folder / "view"


@pytest.mark.thorough
def test_hostile_runs_make_harmless_pages(hostile: Path) -> None:
    readers = checked(hostile)
    assert len(readers) > 2
    for name, text in texts(hostile).items():
        assert not FORBIDDEN.search(text), name
        assert text.count("<script") == text.count("<h1>forged") == text.count("<img") == 0
        assert text.count("<style>") == text.count("</style>") == text.count("</title>") == 1
    text = "".join(reader.text for reader in readers.values())
    for payload in HOSTILE:
        if payload not in ("bidi", "zero_width", "nul", "c0", "c1", "ansi", "surrogate", "noncharacter", "emoji"):
            assert text.count(HOSTILE[payload]) > 20, payload
    assert "user⟨U+202E⟩txt.exe" in text and "49" not in readers["index.html"].text.split("What was played")[0]


def test_an_episode_that_is_too_large_is_cut_and_says_so(tmp_path: Path) -> None:
    suite = plain_suite(3)
    rows = []
    for place, (key, entry, task, _, _) in enumerate(suite.episodes()):
        _, result = plain_row(key, entry, task, False)
        turn = replace(result.trajectory.turns[0], terminated=False)
        turns = (turn,) * 10_000 if place == 0 else (replace(turn, action="'" * 150_000),) * 12
        if place == 2:
            turns = (replace(turn, observation=result.trajectory.prompt * 30_000),)
        rows.append((key, replace(result, trajectory=replace(result.trajectory, turns=turns), status="truncated")))
    write_run(tmp_path / "run", suite, iter(rows))
    write_view(tmp_path / "run", tmp_path / "view")
    pages = {name: reader.text for name, reader in checked(tmp_path / "view").items() if name.startswith("pages/")}
    first, second, third = (
        next(t for t in pages.values() if f"What is task-0000{n}?" in t or n == 2) for n in range(3)
    )
    assert "9,000 turns are left out here" in first and "Turn 10000" in first
    assert "Cut here: the text has 150,000 characters." in second
    assert any("too large for a page" in text for text in (*pages.values(), third))


def test_memory_does_not_grow_with_the_transcripts(tmp_path: Path) -> None:
    suite = plain_suite(400)
    word = "word " * 20_000
    rows = (plain_row(key, entry, task, False, word) for key, entry, task, _, _ in suite.episodes())
    run = write_run(tmp_path / "run", suite, rows)
    size = (run.folder / "journal.jsonl").stat().st_size
    tracemalloc.start()
    write_view(run.folder, tmp_path / "view", most=20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size > 40_000_000
    assert peak < size / 2


class HostileNumbers(Numbers):
    """Numbers whose gold answers attack the page."""

    def get(self, split: str, key: int | str) -> Task:
        return replace(super().get(split, key), gold=("".join(HOSTILE.values()), "</dd></dl><h1>forged"))


class HostileGuess(Guess):
    """Guess with those."""

    def __init__(self, **arguments: object) -> None:
        super().__init__(**arguments)  # type: ignore[arg-type]
        self.source = HostileNumbers()


def test_gold_answers_are_those_of_the_same_task(tmp_path: Path) -> None:
    gym.register(id="hostile/Gold-v0", entry_point=HostileGuess)
    try:
        task = HostileNumbers().get("test", "test-1")
        entry = Entry(
            label="x", env_id="hostile/Gold-v0", arguments={}, spec_digest="d" * 64, split="test",
            tasks=(("test-1", task.digest, "c"),),
        )  # fmt: skip
        header = Header(entry.env_id, "d" * 64, "test-1", "test", task.digest, 1, "k")
        with ReplayReader(tmp_path / "none") as reader:
            assert reader.task(entry, "test-1") == task and reader.notes == {}
            other = entry.model_copy(update={"tasks": (("test-1", "f" * 64, "c"),)})
            assert reader.task(other, "test-1") is None
        assert "another content" in reader.notes["x"]
        suite = plain_suite(1).model_copy(update={"entries": (entry,)})
        key = next(key for key, *_ in suite.episodes())
        _, result = plain_row(key, entry, "test-1", True)
        result = replace(result, trajectory=replace(result.trajectory, header=replace(header, episode_key=key)))
        write_run(tmp_path / "run", suite, iter([(key, result)]))
        write_view(tmp_path / "run", tmp_path / "view")
    finally:
        gym.registry.pop("hostile/Gold-v0")
    page = texts(tmp_path / "view")["pages/0001.html"]
    assert "<h1>forged" not in page and "&lt;h1&gt;forged" in page
    assert "gold answers" in checked(tmp_path / "view")["pages/0001.html"].text


def test_a_page_imports_no_module_that_a_run_names(tmp_path: Path) -> None:
    run = plain_run(tmp_path / "run", 3)
    text = (run / "suite.json").read_text()
    (run / "suite.json").write_text(re.sub(r'"env_id":"', '"env_id":"this:', text))
    with pytest.raises(UsageError, match=r"entries.0.env_id: .*names a module to import"):
        write_view(run, tmp_path / "view")


def test_links_in_a_strangers_run_are_not_followed(tmp_path: Path) -> None:
    run, victim, elsewhere = plain_run(tmp_path / "run", 3), tmp_path / "victim.txt", tmp_path / "elsewhere"
    victim.write_text("precious")
    elsewhere.mkdir()
    (run / "view").mkdir()
    (run / "view" / MARKER).symlink_to(victim)
    with pytest.raises(UsageError, match="link"):
        write_view(run, run / "view")
    (run / "view" / MARKER).unlink()
    (run / "view" / MARKER).write_text("")
    (run / "view" / "pages").symlink_to(elsewhere)
    with pytest.raises(UsageError, match="is there already"):
        write_view(run, run / "view")
    (run / "other").symlink_to(elsewhere)
    with pytest.raises(UsageError, match="link"):
        write_view(run, run / "other")
    assert victim.read_text() == "precious" and list(elsewhere.iterdir()) == []


def test_a_page_says_which_terms_do_not_apply(tmp_path: Path) -> None:
    suite = adhoc_suite(Choice("agent_envs/SearchQA-v0", limit=1, arguments={"reward": "em_format"}))
    evaluate(suite, Settings("solver"), folder=tmp_path)
    page = (write_view(tmp_path, tmp_path / "view").parent / "pages" / "0001.html").read_text("utf-8")
    assert page.count("<span>format -</span>") == page.count("<span>exact_match -</span>") > 0  # at each search
    assert page.count("<span>format 0</span>") == page.count("<span>exact_match +1</span>") == 1
