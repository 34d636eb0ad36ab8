"""The pages of a run in a real browser: a hostile run gives no dialog, no request and no message, and the pages work.

Needs Chromium (Debian's) and playwright from the dev extra, without its own browsers.
"""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import pytest

import agent_envs
import tests.envs.tau2.recorded  # noqa: F401 - makes a recorded user known
from agent_envs.core.registry import companion
from agent_envs.evaluation.html.page import Page, Table, Transcript, write_page
from agent_envs.evaluation.html.report_page import write_comparison, write_report
from agent_envs.evaluation.html.view import write_view
from agent_envs.evaluation.report.compare import compare_entries, compare_runs
from agent_envs.evaluation.report.report import report_on
from agent_envs.evaluation.runs import run_folder
from agent_envs.evaluation.runs.evaluate import evaluate
from agent_envs.evaluation.submission.pack import pack_run
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.evaluation.suites.suite import load_suite
from agent_envs.evaluation.verification.verify import How
from agent_envs.rollout.policy import Reply
from leaderboard.board import Board, BoardSettings, PublishedScore, entrant_of
from leaderboard.decisions import Decision
from leaderboard.pages import write_boards
from leaderboard.standings import standings
from tests.evaluation.html.test_conversation_html import everywhere
from tests.hostile_texts import EVERYTHING, HOSTILE, MARKUP, episode, hostile_run, plain_row, plain_suite, write_run
from tests.needs import needs

COLOUR = "getComputedStyle(node).{}.match(/[0-9.]+/g).slice(0, 3).map(Number)"
LOOKS = {"light": ("light", 1280), "dark": ("dark", 1280), "phone": ("light", 360)}
pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("chromium"), needs("chromium", "[dev]", "[envs]")]


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    texts = {name: text[:3_000] for name, text in EVERYTHING.items()}
    return write_view(hostile_run(folder / "run", texts).folder, folder / "view").parent


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("plain")
    suite = plain_suite(tasks=60)
    rows = (
        plain_row(key, entry, task, success=task[-1] in "02468", text="word " * 2_000)
        for key, entry, task, _, _ in suite.episodes()
    )
    return write_view(write_run(folder / "run", suite, rows).folder, folder / "view").parent


@pytest.fixture(scope="module")
def lanes(tmp_path_factory) -> Path:
    """A page on which a hostile conversation stands beside a real one."""
    folder = tmp_path_factory.mktemp("lanes")
    env = gym.make("agent_envs/Tau2Telecom-v0", tasks="builtin", user="replay")
    env.reset(options={"task": "telecom-test-airplane", "split": "test"})
    for action in agent_envs.solve(env):
        env.step(action)
    core = env.unwrapped
    real = Transcript("e1", "real", (), core.trajectory, conversation=companion(env, "conversation_view")(env))
    texts = "\n".join(text[:500] for text in EVERYTHING.values())
    play = episode(lambda word: word + texts)
    play = replace(play, turns=(play.turns[0], replace(play.turns[1], action=texts)))
    hostile = Transcript("e2", "hostile", (), play, conversation=everywhere(texts))
    write_page(folder / "lanes.html", Page("lanes", "", transcripts=(real, hostile)))
    return folder / "lanes.html"


class Shouting:
    """A policy whose every text attacks the page that shows it."""

    name, batch = "shouting", 1

    def act(self, requests):
        texts = list(MARKUP.values())
        return [Reply(texts[request.turn % len(texts)] + "<answer>" + "".join(texts)) for request in requests]


@pytest.fixture(scope="module")
def hostile_board(tmp_path_factory) -> Path:
    """The pages of a board on which strangers wrote what they could: names, notes, decisions, figures and actions."""
    folder, joined = tmp_path_factory.mktemp("board"), " ".join(MARKUP.values())[:190]
    demo = load_suite("demo@1")
    suite = demo.model_copy(
        update={"entries": tuple(item for item in demo.entries if item.label in ("SearchQA-v0", "Sort-v0"))}
    )
    entrants = []
    for number, name in enumerate((MARKUP["script"], MARKUP["attribute"])):
        run, packed = folder / f"run{number}", folder / f"packed{number}"
        evaluate(suite, run_folder.Settings("shouting"), policy=Shouting(), folder=run)
        about = folder / f"{number}.json"
        agent = {"name": name, "version": MARKUP["handler"], "scaffold": MARKUP["svg"]}
        about.write_text(json.dumps({"schema": "agent-envs/about@1", "agent": agent, "submitter": {"name": MARKUP["title"]},
                                     "models": [{"name": MARKUP["data"]}], "training": {"notes": joined}}))  # fmt: skip
        pack_run(run, packed, about)
        with pytest.MonkeyPatch.context() as patch:  # two entries stand for the shipped suite, which no file may
            patch.setattr("agent_envs.evaluation.verification.suites_known.suite_names", list)
            _, entrant = entrant_of(packed, How(suite, jobs=0))
        row = Decision(submission=entrant.verdict.submission, verb="accepted", reason=joined, who=MARKUP["style"],
                       time="2026-01-01T00:00:00+00:00")  # fmt: skip
        entrants.append(replace(entrant, history=(row,)))
    published = PublishedScore(agent=MARKUP["entities"], score=0.5, source=joined)
    settings = BoardSettings(title=MARKUP["table"], suite="demo@1", about=joined, published=[published])
    board = Board("demo", settings, standings(suite, entrants), (joined,), entrants[0].history)
    return write_boards([board], folder / "site").parent


@contextmanager
def opened(browser, look: str) -> Iterator[tuple[object, list[str]]]:
    """A page, and everything that it did which a page of ours must not do."""
    scheme, width = LOOKS[look]
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
    page, wrong = context.new_page(), []
    page.on("dialog", lambda dialog: (wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("console", lambda message: wrong.append(f"console {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"error {error}"))
    page.on("popup", lambda popup: wrong.append(f"popup {popup.url}"))

    def requested(request):
        if not re.fullmatch(r"file:///[^?#]*\.html(#[\w-]*)?", request.url) or request.resource_type != "document":
            wrong.append(f"request {request.resource_type} {request.url[:80]}")

    page.on("request", requested)
    yield page, wrong
    context.close()


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("site", ["hostile", "hostile_board"])
def test_a_hostile_site_is_only_text(browser, site, look, request):
    files = sorted(request.getfixturevalue(site).rglob("*.html"))
    assert len(files) >= (2 if site == "hostile" else 4)
    with opened(browser, look) as (page, wrong):
        for file in files:
            page.goto(file.as_uri())
            assert (
                page.evaluate("document.querySelectorAll('script, img, iframe, form, input, svg[onload], base').length")
                == 0
            )
            assert page.evaluate("[...document.querySelectorAll('meta[http-equiv]')].length") == 1
            assert page.evaluate("document.scrollingElement.scrollWidth <= window.innerWidth"), (
                f"{file.name} is too wide"
            )
            for fold in page.locator("details > summary").all()[:20]:
                fold.click()
            page.mouse.move(200, 300)
            page.keyboard.press("Tab")
            page.keyboard.press("Tab")
            assert page.url.startswith("file://")
        assert wrong == []


def test_what_strangers_wrote_on_a_board_is_shown_as_it_is(browser, hostile_board):
    with opened(browser, "light") as (page, wrong):
        shown = ""
        for file in sorted(hostile_board.rglob("*.html")):
            page.goto(file.as_uri())
            shown += page.evaluate("document.body.textContent")
        for name in (
            "script",
            "attribute",
            "handler",
            "svg",
            "title",
            "data",
            "style",
            "entities",
            "table",
            "template",
        ):
            assert MARKUP[name] in shown, name
        assert wrong == []


def test_hostile_texts_are_shown_as_they_are(browser, hostile):
    with opened(browser, "light") as (page, wrong):
        shown = ""
        for file in sorted(hostile.rglob("*.html")):
            page.goto(file.as_uri())
            shown += page.evaluate("document.body.textContent")
        for name in ("script", "attribute", "template", "markdown", "frame", "right_to_left", "emoji"):
            assert HOSTILE[name] in shown, name
        assert "49" not in re.findall(r"\{\{ 7 \* 7 \}\}|(?<=first)49", shown)
        assert wrong == []


@pytest.mark.parametrize("look", LOOKS)
def test_deep_links_folds_and_ways_between_pages(browser, plain, look):
    with opened(browser, look) as (page, wrong):
        page.goto((plain / "index.html").as_uri())
        assert page.title() == "nobody on entry 0" or "nobody" in page.title()
        page.locator("a[href^='pages/0002.html#']").first.click()
        assert "/pages/0002.html#e" in page.url
        page.get_by_role("link", name="previous page").first.click()
        page.get_by_role("link", name="index").first.click()
        assert page.url.endswith("/index.html")
        first = page.locator("a[href^='pages/0001.html#']").nth(30).get_attribute("href")
        page.goto(f"{(plain / 'index.html').parent.as_uri()}/{first}-t1")
        turn = page.locator(f"[id='{first.partition('#')[2]}-t1']")
        assert 0 <= turn.bounding_box()["y"] < 400
        fold = turn.locator("details").first
        assert not fold.evaluate("node => node.open")
        fold.locator("summary").click()
        assert fold.evaluate("node => node.open") and fold.locator(".text").first.is_visible()
        assert page.evaluate("document.scrollingElement.scrollWidth <= window.innerWidth")
        assert wrong == []


@pytest.mark.parametrize("look", LOOKS)
def test_lanes_stand_side_by_side_stack_on_a_phone_and_open_by_key(browser, lanes, look):
    with opened(browser, look) as (page, wrong):
        page.goto(lanes.as_uri())
        turn = page.locator("[id='e1-t4']")
        left, right = (turn.locator(f".voice.{side}").first.bounding_box() for side in ("left", "right"))
        if look == "phone":
            assert right["y"] >= left["y"] + left["height"] and 0 < right["x"] - left["x"] < 60
        else:
            assert right["y"] == left["y"] and right["x"] >= left["x"] + left["width"]
        assert turn.locator(".who").all_inner_texts() == ["agent", "customer"]
        borders = [
            turn.locator(f".voice.{side} > .said").first.evaluate("node => getComputedStyle(node).borderLeftStyle")
            for side in ("left", "right")
        ]
        assert borders == ["solid", "double"]  # what tells them apart where colours do not
        fold = turn.locator("details").first
        assert not fold.evaluate("node => node.open")
        fold.locator("summary").focus()
        page.keyboard.press("Enter")
        assert fold.evaluate("node => node.open") and fold.locator(".machine").last.is_visible()
        assert turn.locator(".changed").inner_text().startswith("CHANGED")
        paper = page.locator("body").evaluate(f"node => {COLOUR.format('backgroundColor')}")
        for where in (".left > .who", ".right > .who", ".arguments", ".label", ".tag", ".fits", ".checks .what"):
            shade = page.locator(where).first.evaluate(f"node => {COLOUR.format('color')}")
            assert contrast(shade, paper) >= 4.5, (where, shade)
        for name in page.locator("details").all():
            name.evaluate("node => node.open = true")
        assert page.evaluate("document.scrollingElement.scrollWidth <= window.innerWidth")
        assert page.evaluate("document.querySelectorAll('script, img, iframe, form, input, svg, base').length") == 0
        assert wrong == []


@pytest.mark.parametrize("look", LOOKS)
def test_pictures_of_states_are_drawn_and_nothing_in_them_runs(browser, tmp_path, look):
    play = episode(lambda word: word + " and more words" * 40)
    square = '<svg xmlns="http://www.w3.org/2000/svg" width="60" height="60"><rect width="60" height="60"/>{}</svg>'
    bad = "<script>alert(1)</script><image href='https://example.org/x.png' width='9' height='9' onload='alert(2)'/>"
    item = Transcript("e1", "pictured", (), play, pictures=(square.format(""), square.format(bad), "<svg>no end"))
    write_page(tmp_path / "pictured.html", Page("pictures", "", transcripts=(item,)))
    with opened(browser, look) as (page, wrong):
        page.goto((tmp_path / "pictured.html").as_uri())
        sizes = page.evaluate("[...document.images].map(image => [image.naturalWidth, image.complete])")
        assert sizes == [[60, True], [60, True], [0, True]]
        words, picture = (page.locator(f"[id='e1-t1'] {name}").first.bounding_box() for name in (".words", "img"))
        if look == "phone":
            assert picture["y"] >= words["y"] + words["height"]
        else:
            assert picture["x"] >= words["x"] + words["width"] and picture["y"] < words["y"] + 60
        assert page.evaluate("document.scrollingElement.scrollWidth <= window.innerWidth")
        assert [text for text in wrong if not text.startswith("request image data:")] == []


def test_on_a_phone_every_number_can_be_read_beside_the_name_of_its_row(browser, tmp_path):
    heads = ("agent", *(f"figure {number}" for number in range(9)))
    rows = tuple((name, *(f"{number}.5 % [1.0, 9.0]" for number in range(9))) for name in ("twice", "twice", "other"))
    write_page(tmp_path / "wide.html", Page("wide", "", (Table("Wide", heads, rows),)))
    with opened(browser, "phone") as (page, wrong):
        page.goto((tmp_path / "wide.html").as_uri())
        assert page.evaluate("document.scrollingElement.scrollWidth <= window.innerWidth")
        for line in page.locator("tbody tr").all():
            name, *numbers = line.locator("td").all()
            bottom = name.bounding_box()["y"] + name.bounding_box()["height"]
            for place, number in enumerate(numbers):  # each a line of its own, behind the name of its column
                box, before = number.bounding_box(), "node => getComputedStyle(node, '::before').content"
                assert box["y"] >= bottom and 0 <= box["x"] and box["x"] + box["width"] <= 361
                assert number.evaluate(before) == f'"figure {place}"'
                bottom = box["y"] + box["height"]
            assert line.locator("td").first.evaluate("node => getComputedStyle(node).color") != "rgba(0, 0, 0, 0)"
        assert wrong == []


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> Path:
    """Pages of ordinary runs: reports of one entry with trials and of a suite, comparisons of agents and in a sweep, a view."""
    folder = tmp_path_factory.mktemp("told")
    suites = {
        "trials": adhoc_suite(Choice("SearchQA", limit=12, trials=8)),
        "sweep": adhoc_suite(Choice("SearchQA", limit=12, sweep=("retriever", ("bm25", "empty", "oracle")))),
        "demo": load_suite("demo@1"),
    }
    for name, suite in suites.items():
        for agent in ("random", "heuristic") if name != "demo" else ("random",):
            evaluate(suite, run_folder.Settings(agent), folder=folder / f"{name}-{agent}")
            write_report(
                folder / "out" / f"{name}-{agent}.html", report_on(run_folder.open_run(folder / f"{name}-{agent}"))
            )
    runs = [run_folder.open_run(folder / f"trials-{agent}") for agent in ("random", "heuristic")]
    write_comparison(folder / "out" / "agents.html", *compare_runs(*runs))
    long = folder / "trials-multihop"  # a name without a space to be broken at
    evaluate(suites["trials"], run_folder.Settings("baselines.multi_hop:MultiHop"), folder=long)
    write_comparison(folder / "out" / "long.html", *compare_runs(runs[1], run_folder.open_run(long)))
    write_comparison(
        folder / "out" / "settings.html", *compare_entries(run_folder.open_run(folder / "sweep-heuristic"))
    )
    write_view(folder / "demo-random", folder / "out" / "view", most=20)
    return folder / "out"


def test_no_table_is_clipped_on_a_desktop(browser, told):
    with opened(browser, "light") as (page, wrong):
        page.set_viewport_size({"width": 1200, "height": 800})
        files = sorted(told.rglob("*.html"))
        assert len(files) >= 10
        for file in files:
            page.goto(file.as_uri())
            over = "[...document.querySelectorAll('.scroll')].filter(node => node.scrollWidth > node.clientWidth + 1)"
            assert page.evaluate(f"{over}.map(node => node.ariaLabel)") == [], file.name
        assert wrong == []


@pytest.mark.parametrize("look", LOOKS)
def test_rows_are_chosen_by_outcome_without_a_script(browser, told, look):
    with opened(browser, look) as (page, wrong):
        page.goto((told / "view" / "index.html").as_uri())
        block = page.locator("section.block:has(.sifts)").first
        choice = block.locator(".sifts a").nth(1)
        name, count = re.fullmatch(r"(.+) \(([0-9]+)\)", choice.inner_text()).groups()
        rows = block.locator("tbody tr")
        assert rows.count() > int(count) > 0
        choice.click()
        seen = [row for row in rows.all() if row.is_visible()]
        assert len(seen) == int(count) and all(name in row.inner_text() for row in seen)
        first = seen[0].locator("td").first  # whose name may stand in a row that is hidden now
        assert first.evaluate("node => getComputedStyle(node).color") != "rgba(0, 0, 0, 0)"
        block.locator(".sifts a").first.click()
        assert all(row.is_visible() for row in rows.all()) and wrong == []


def test_light_and_dark_differ_and_can_be_read(browser, plain):
    found = {}
    for look in ("light", "dark"):
        with opened(browser, look) as (page, wrong):
            page.goto((plain / "pages" / "0001.html").as_uri())
            colour = "node => getComputedStyle(node).color.match(/[0-9.]+/g).slice(0, 3).map(Number)"
            paper = page.locator("body").evaluate(colour.replace(".color.", ".backgroundColor."))
            texts = [
                page.locator(where).first.evaluate(colour) for where in ("body", ".intro", "a", ".who", "dt", "summary")
            ]
            found[look] = (tuple(paper), tuple(map(tuple, texts)))
            assert all(contrast(text, paper) >= 4.5 for text in texts), (look, texts)
            assert wrong == []
    assert found["light"][0] != found["dark"][0] and found["light"][1] != found["dark"][1]


def contrast(one, other) -> float:
    """The contrast of two sRGB colours as WCAG 2 defines it, 1 to 21."""

    def light(colour):
        parts = [value / 255 for value in colour]
        parts = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
