"""A page of hostile text is still one page: no element from data, a policy that holds, links that lead somewhere."""

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.base.errors import UsageError
from agent_envs.evaluation.html.page import (
    MAX_CHARACTERS,
    Bar,
    Cell,
    Curve,
    Page,
    Picture,
    Table,
    Transcript,
    draw,
    render,
    write_page,
)
from agent_envs.evaluation.statistics.rates import Rate
from agent_envs.rollout.policy import CompanionPolicy
from tests.hostile_texts import MARKUP, episode

VOID = {"meta", "br", "hr", "img", "input", "link", "wbr"}


class Reader(HTMLParser):
    """Collects elements, text and the style sheet of a page, and checks that tags nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self._said: list[str] = []
        self._styled: list[str] = []
        self.feed(html)
        self.close()
        self.text, self.style = "".join(self._said), "".join(self._styled)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"<{tag}> has an attribute twice"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self._styled if self.open and self.open[-1] == "style" else self._said).append(data)

    @property
    def shape(self) -> list[tuple[str, tuple[str, ...]]]:
        """Elements with the names of their attributes."""
        return [(tag, tuple(attrs)) for tag, attrs in self.elements]


def page(text: Callable[[str], str] = str) -> Page:
    """A page with `text` applied to every text in it."""
    table = Table(
        text("table"),
        (text("name"), "", text("rate"), text("link")),
        ((text("row"), Bar(0.5, 0.25, 0.75), "62.0 %", Cell(text("turn"), "#e1-t2")), (text("short"), "")),
    )
    series = ((text("one"), ((0.0, 0.5, 0.4, 0.6), (1.0, 0.7, 0.6, 0.8))), (text("two"), ((0.0, 0.1, None, None),)))
    curve = Curve(text("curve"), text("steps"), text("success"), series)
    play = Transcript("e1", text("episode"), ((text("agent"), text("solver")),), episode(text), text("note"))
    return Page(text("title"), text("intro"), (table,), (curve,), (play,))


def rendered(folder: Path, value: Page) -> str:
    write_page(folder / "index.html", value)
    return (folder / "index.html").read_bytes().decode("utf-8")


@pytest.mark.parametrize("payload", MARKUP.values(), ids=MARKUP)
def test_hostile_text_is_text(tmp_path: Path, payload: str) -> None:
    harmless = Reader(rendered(tmp_path, page(lambda word: word + "x" * len(payload))))
    hostile = Reader(rendered(tmp_path, page(lambda word: word + payload)))
    assert hostile.shape == harmless.shape
    assert hostile.text.count(payload) == harmless.text.count("x" * len(payload)) > 25


def test_no_script_no_handler_no_inline_style_no_address(tmp_path: Path) -> None:
    reader = Reader(rendered(tmp_path, page(lambda word: word + "".join(MARKUP.values()))))
    for tag, attributes in reader.elements:
        assert tag not in ("script", "iframe", "img", "object", "embed", "link", "base", "form")
        for name in attributes:
            assert not name.startswith("on") and name not in ("style", "src", "srcset", "action")
        assert attributes.get("href", "#").startswith("#")  # type: ignore[union-attr]
    assert "url(" not in reader.style and "@import" not in reader.style


def test_the_policy_allows_this_style_sheet_and_nothing_else(tmp_path: Path) -> None:
    reader = Reader(rendered(tmp_path, page()))
    policies = [a["content"] for _, a in reader.elements if a.get("http-equiv") == "Content-Security-Policy"]
    digest = base64.b64encode(hashlib.sha256(reader.style.encode()).digest()).decode()
    assert policies == [f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"]
    names = [tag for tag, _ in reader.elements]
    assert names.count("style") == 1
    assert names.index("style") > next(i for i, (_, a) in enumerate(reader.elements) if "http-equiv" in a)


def test_language_charset_viewport(tmp_path: Path) -> None:
    html = rendered(tmp_path, page())
    assert html.startswith("<!doctype html>\n<html lang=")
    elements = Reader(html).elements
    assert ("meta", {"charset": "utf-8"}) in elements
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in elements


def test_links_lead_to_anchors_and_anchors_are_unique(tmp_path: Path) -> None:
    two = replace(page().transcripts[0], anchor="e2")
    reader = Reader(rendered(tmp_path, replace(page(), transcripts=(*page().transcripts, two))))
    anchors = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    links = [attributes["href"] for _, attributes in reader.elements if "href" in attributes]
    assert len(anchors) == len(set(anchors))
    assert {"e1", "e1-t0", "e1-t1", "e1-t2", "e2-t2"} <= set(anchors)
    assert {str(link)[1:] for link in links} <= set(anchors)
    assert "#e1-t2" in links


@pytest.mark.parametrize("anchor", ["", "1", "a b", 'a"', "a\n", "é", "a" * 81])
def test_bad_anchors_are_refused(tmp_path: Path, anchor: str) -> None:
    with pytest.raises(UsageError, match="anchor"):
        write_page(
            tmp_path / "x.html", replace(page(), tables=(), transcripts=(Transcript(anchor, "", (), episode(str)),))
        )
    assert not (tmp_path / "x.html").exists()


@pytest.mark.parametrize("href", ["https://example.org", "javascript:alert(1)", "e1", "#"])
def test_links_that_lead_nowhere_are_refused(tmp_path: Path, href: str) -> None:
    table = Table("t", ("a",), ((Cell("a", href),),))
    with pytest.raises(UsageError, match="links to no anchor"):
        write_page(tmp_path / "x.html", replace(page(), tables=(table,)))


def test_equal_pages_are_equal_bytes(tmp_path: Path) -> None:
    assert rendered(tmp_path / "deep" / "a", page()) == rendered(tmp_path / "b", page())
    assert rendered(tmp_path / "b", page()) != rendered(tmp_path / "b", page(str.upper))


def test_empty_pages_and_empty_parts(tmp_path: Path) -> None:
    bare = Reader(rendered(tmp_path, Page("t", "")))
    assert "article" not in [tag for tag, _ in bare.elements]
    idle = replace(episode(str), turns=(), prompt=())
    parts = Page(
        "t",
        "",
        (Table("", (), ()), Table("a", ("b",), ((), ()))),
        (Curve("", "", "", ()),),
        (Transcript("a", "", (), idle),),
    )
    assert "polyline" not in rendered(tmp_path, parts)


def test_control_characters_go_and_hiding_ones_show(tmp_path: Path) -> None:
    dirty = "a\x00b\x1b[31mc\r\nd\te\x7f\x85\u202egpj\u2066\u200b\U000e0041\ud800\ufffe"
    html = rendered(tmp_path, page(lambda word: word + dirty))
    assert "ab[31mc\nd\te⟨U+202E⟩gpj⟨U+2066⟩⟨U+200B⟩⟨U+E0041⟩\ufffd" in html
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe]", html)


def test_long_texts_are_bounded_everywhere(tmp_path: Path) -> None:
    long = "<b>" + "é" * 1_000_000
    fields = len(re.findall("%", rendered(tmp_path, page(lambda word: word + "%")))) - 1
    html = rendered(tmp_path, page(lambda word: word + long))
    assert len(re.findall("é{1000}", html)) <= (fields + 5) * MAX_CHARACTERS // 1000
    assert max(map(len, re.findall("é+", html))) <= MAX_CHARACTERS
    assert "1,000,008 characters in all, 200,000 shown" in html
    assert "Cut here: the text has 1,000,008 characters." in html
    assert "<b>" not in html


def test_folding_makes_a_details_element(tmp_path: Path) -> None:
    assert "details" not in [tag for tag, _ in Reader(rendered(tmp_path, page())).elements]
    folded = Reader(rendered(tmp_path, page(lambda word: word + " more" * 500)))
    assert [tag for tag, _ in folded.elements].count("details") == 5
    assert "more characters" in folded.text


def test_a_table_with_a_summary_is_folded_and_says_what_n_counts(tmp_path: Path) -> None:
    rate = Rate(0.5, 0.4, 0.6, 80, 80, 32)
    table = Table("", ("id", "rate"), (("Sort", rate),), summary=("<Sort>", "random 50 %"))
    html = rendered(tmp_path, Page("t", "", (table, replace(table, rows=(("Sort", replace(rate, clusters=80)),)))))
    assert "<summary><span>&lt;Sort&gt;</span><span>random 50 %</span></summary>" in html and "<h2>" not in html
    assert html.count("n, the number of episodes: 80 in 32 clusters. Episodes of one cluster") == 1
    assert "n, the number of episodes: 80.</p>" in html


def test_a_transcript_between_tables_has_no_list_to_lead_to(tmp_path: Path) -> None:
    play = draw(Transcript("e1", "one", (), episode(str), listed=False))
    html = rendered(tmp_path, Page("t", "", (Table("above", ("a",), ()), play, Table("beneath", ("a",), ()))))
    assert html.index("above<") < html.index('id="e1"') < html.index("beneath<") and "#episodes" not in html


def test_marks_are_spans_around_escaped_text(tmp_path: Path) -> None:
    play = episode(str)
    turn = replace(play.turns[0], action="<think><img onerror=x></think>")
    html = rendered(tmp_path, Page("t", "", transcripts=(Transcript("e", "", (), replace(play, turns=(turn,))),)))
    assert '<span class="think">&lt;think&gt;&lt;img onerror=x&gt;&lt;/think&gt;</span>' in html


def test_what_a_transcript_tells(tmp_path: Path) -> None:
    html = rendered(tmp_path, page())
    text = Reader(html).text
    for word in ("Turn 1", "Turn 2", "reward −0.25", "reward +1", "format −0.25", "malformed", "lookup failed"):
        assert word in text
    for word in ("search: d1", "episode ends", "context replaced", "17", "success", "0.75"):
        assert word in text
    for author in ("environment", "policy", "tool", "user", "feedback"):
        assert f'class="lane {author}"' in html
    assert '<span class="badge good">success</span>' in html
    failed = replace(episode(str), success=False)
    assert '<span class="badge bad">failure</span>' in rendered(
        tmp_path, Page("t", "", (), (), (Transcript("a", "", (), failed),))
    )


def test_an_unknown_author_has_a_lane_of_the_environment(tmp_path: Path) -> None:
    html = rendered(tmp_path, page(lambda word: word + "?"))
    assert '<div class="lane environment"><div class="who">feedback?</div>' in html


def test_number_columns_stand_flush_right(tmp_path: Path) -> None:
    rows = (("a", "1.5", "7.2 %"), ("2", "−0.3", "1,204"), ("2", "", "x" * 3))
    html = rendered(tmp_path, Page("t", "", (Table("t", ("mixed", "number", "tail"), rows),)))
    assert html.count('class="num"') == 4


def test_a_real_episode(tmp_path: Path) -> None:
    result = agent_envs.run_episode(gym.make("agent_envs/SearchQA-v0"), CompanionPolicy("solver"), seed=0, task=3)
    play = Transcript("e", "solver", (), result.trajectory)
    html = rendered(tmp_path, Page("t", "", transcripts=(play,)))
    assert html.count('<section class="turn"') == len(result.trajectory.turns) + 1
    assert '<span class="call">&lt;search&gt;' in html


def test_drawings_are_well_formed(tmp_path: Path) -> None:
    drawings = re.findall(r"<svg.*?</svg>", rendered(tmp_path, page()), flags=re.DOTALL)
    assert len(drawings) == 4
    for drawing in drawings:
        ElementTree.fromstring(drawing)


def test_a_picture_is_an_image_of_its_own():
    """Its words are escaped, its text is data, and only a page that has one may show images."""
    drawing = '<svg xmlns="http://www.w3.org/2000/svg"><title>x</title></svg>'
    plain = render(Page("t", "i")).decode()
    shown = render(Page("t", "i", pictures=(Picture('a "tree"', "<what> it is", drawing),))).decode()
    assert "img-src" not in plain and "default-src 'none'; img-src data:; style-src" in shown
    source = shown.partition('src="data:image/svg+xml;base64,')[2].partition('"')[0]
    assert base64.b64decode(source).decode() == drawing
    assert 'alt="&lt;what&gt; it is"' in shown and "a &#34;tree&#34;" in shown and "<title>x" not in shown
