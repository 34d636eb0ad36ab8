"""Search engines: what each is asked, which answers are read, which are faults, keys that show nowhere, replays."""

import copy
import json
import traceback
from functools import partial
from urllib.parse import parse_qsl, urlsplit

import pytest

from agent_envs.base.documents import Hit, Passage
from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.services.recording import Recording
from agent_envs.tools.retrieval.build import is_outside, make_retriever
from agent_envs.tools.web import WEB_FORMS, WebSearch, is_web_search
from agent_envs.tools.web.providers import PROVIDERS
from tests.rows import each_row
from tests.servers import FAULTS, FaultServer

KEY = "key-0123456789-secret"
VARIABLES = {"serper": "SERPER_API_KEY", "brave": "BRAVE_API_KEY"}
ROWS = {
    "serper": [
        {
            "title": "Mor",
            "link": "https://mor.example/",
            "snippet": "A harbour\n town.",
            "position": 1,
            "sitelinks": [],
        },
        {"title": "Flags", "link": "http://flags.example/mor?x=1"},
        {"title": "Mor again", "link": "https://mor.example/", "snippet": "twice"},
        {"title": "No page", "link": "ftp://mor.example/", "snippet": ""},
        {"title": "Third", "link": "https://third.example/", "snippet": None, "date": "1 May 2020"},
    ],
}
ROWS["searxng"] = [
    {"url": row["link"], "title": row["title"], "content": row.get("snippet"), "engines": ["x"]}
    for row in ROWS["serper"]
]
ROWS["brave"] = [
    {"url": row["link"], "title": f"<strong>{row['title']}</strong>", "description": row.get("snippet")}
    for row in ROWS["serper"]
]
ANSWERS = {
    "serper": {"searchParameters": {"q": "x"}, "organic": ROWS["serper"], "credits": 1},
    "brave": {"type": "search", "query": {"original": "x"}, "web": {"type": "search", "results": ROWS["brave"]}},
    "searxng": {"query": "x", "results": ROWS["searxng"], "unresponsive_engines": [["y", "timeout"]]},
}
HITS = (
    Hit(Passage("https://mor.example/", "Mor", "A harbour town."), 1.0),
    Hit(Passage("http://flags.example/mor?x=1", "Flags", ""), 0.5),
    Hit(Passage("https://third.example/", "Third", ""), 1 / 3),
)
STYLES = tuple(PROVIDERS)
Quick = partial(WebSearch, wait=lambda seconds: None)


@pytest.fixture
def keys(monkeypatch):
    for variable in VARIABLES.values():
        monkeypatch.setenv(variable, f" {KEY} ")


def answering(value):
    return FaultServer(lambda path, headers, body: (200, {}, json.dumps(value).encode()))


def asked(server):
    """Return what the last request asks, from its URL or its body, with its method, path and headers."""
    method, path, headers, body = server.requests[-1]
    parts = urlsplit(path)
    return method, parts.path, json.loads(body) if body else dict(parse_qsl(parts.query)), headers


@pytest.mark.parametrize("style", STYLES)
def test_answers_become_hits(style, keys):
    with answering(ANSWERS[style]) as server:
        engine = Quick(f"{style}@{server.url}")
        assert engine.search("Mor?", 5, support=("hidden",), seed="hidden") == HITS
        assert engine.search("Mor?", 2) == HITS[:2] and engine.search("Mor?", 1) == HITS[:1]
        assert engine.search("Mor?", 0) == engine.search(" \n\x00 ", 3) == ()
        assert server.count == 3 and "hidden" not in repr(server.requests)


def test_what_each_engine_is_asked(keys):
    with answering(ANSWERS["serper"]) as server:
        Quick(f"serper@{server.url}/").search("\u017dagar\u0117  &x", 3)
        method, path, question, headers = asked(server)
        assert (method, path, question) == ("POST", "/search", {"q": "\u017dagar\u0117 &x", "num": 10})
        assert (headers["x-api-key"], headers["content-type"]) == (KEY, "application/json")
    with answering(ANSWERS["brave"]) as server:
        Quick(f"brave@{server.url}").search("\u017dagar\u0117 &x", 11)
        method, path, question, headers = asked(server)
        assert (method, path) == ("GET", "/res/v1/web/search") and headers["x-subscription-token"] == KEY
        assert question == {
            "q": "\u017dagar\u0117 &x",
            "count": "20",
            "result_filter": "web",
            "text_decorations": "false",
        }
    with answering(ANSWERS["searxng"]) as server:
        Quick(f"searxng@{server.url}/own/search/").search("\u017dagar\u0117 &x", 100)
        method, path, question, headers = asked(server)
        assert (method, path, question) == ("GET", "/own/search", {"q": "\u017dagar\u0117 &x", "format": "json"})
        assert KEY not in repr(headers)


def test_names(keys):
    assert WebSearch("serper").name == "serper" and WebSearch("brave").name == "brave"
    assert WebSearch("searxng@HTTP://Here:8888").name == "searxng@http://here:8888/search"
    assert WebSearch("serper@https://google.serper.dev/search").name == "serper"
    assert all(is_web_search(form.replace("URL", "http://here")) for form in WEB_FORMS)
    assert not any(
        map(is_web_search, ("bm25", "google", "", "@http://here", "search_r1@http://here", None, 5, ["serper"]))
    )
    with pytest.raises(UsageError, match="name='bm25'; the forms are serper, brave"):
        WebSearch("bm25")


@each_row(
    "url",
    ["", "here", "ftp://here", "http://", "http://here:0x1", "http://here:99999", "http://he re", "http://[::1", "http://here\n",
     "http://u:secret@here", "http://u@here", "http://here/?key=secret", "http://here/#secret", "http://h\xe9re"],
)  # fmt: skip
def test_urls_that_are_none_or_hold_secrets_are_refused_without_showing_them(url):
    for style in STYLES:
        with pytest.raises(UsageError, match=f"^{style}@") as caught:
            is_web_search(f"{style}@{url}")
        assert "secret" not in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="^searxng@...: after the @ stands"):
        is_web_search("searxng")


@pytest.mark.parametrize("style", VARIABLES)
def test_a_key_is_needed_live_and_only_live(style, tmp_path, monkeypatch):
    (tmp_path / "r.jsonl").touch()
    with Recording(tmp_path / "r2.jsonl", "record") as recorded:
        for recording in (None, recorded):
            with pytest.raises(
                UsageError, match=f"^{style}: set {VARIABLES[style]} to your key, or replay a recording$"
            ):
                WebSearch(style, recording=recording)
    assert WebSearch(style, recording=Recording(tmp_path / "r.jsonl", "replay")).name == style
    for wrong in ("a\nb", "\xe9"):
        monkeypatch.setenv(VARIABLES[style], wrong)
        with pytest.raises(UsageError, match=f"the key in {VARIABLES[style]} holds characters"):
            WebSearch(style)


@pytest.mark.parametrize("style", VARIABLES)
@pytest.mark.parametrize("status", [400, 401, 403, 422, 500])
def test_keys_show_nowhere(style, status, keys, tmp_path):
    with FaultServer(lambda path, headers, body: (status, {}, f"bad key {KEY}".encode())) as server:
        with Recording(tmp_path / "r.jsonl", "record") as recording:
            engine = Quick(f"{style}@{server.url}", recording=recording)
            with pytest.raises(EnvFault) as caught:
                engine.search("a", 1)
        assert (server.count == 1) == (status < 500) and f"answered {status}" in caught.value.cause
    shown = "".join(traceback.format_exception(caught.value)) + f"{engine!r} {vars(engine)} {engine.name}"
    assert KEY not in shown + (tmp_path / "r.jsonl").read_text()


@pytest.mark.parametrize("style", STYLES)
def test_record_and_replay(style, tmp_path, keys, monkeypatch):
    with answering(ANSWERS[style]) as server, Recording(tmp_path / "r.jsonl", "record") as recording:
        name = f"{style}@{server.url}"
        engine = Quick(name, recording=recording)
        assert engine.search("Mor", 3) == engine.search("  Mor\n", 3, seed="other") == HITS
        assert server.count == 1
    recorded = (tmp_path / "r.jsonl").read_text()
    assert KEY not in recorded and "sitelinks" not in recorded and "engines" not in recorded
    monkeypatch.delenv("SERPER_API_KEY")
    replayed = make_retriever(name, None, recording=Recording(tmp_path / "r.jsonl", "replay"))
    assert replayed.search("Mor", 3) == HITS
    with pytest.raises(EnvFault, match="no recording for request"):
        replayed.search("Mor", 4)


RECORDED = {
    "null": None, "list": [], "rows": {"results": 5}, "many": {"results": [["http://a.example", "", ""]] * 4},
    "row": {"results": ["abc"]}, "two": {"results": [["http://a.example", ""]]},
    "number": {"results": [["http://a.example", "", 5]]},
    "ftp": {"results": [["ftp://a.example", "", ""]]}, "long": {"results": [["http://a.example", "", "x" * 2_001]]},
    "title": {"results": [["http://a.example", "t" * 301, ""]]},
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_a_recording_of_a_stranger_is_checked(name, tmp_path):
    with Recording(tmp_path / "r.jsonl", "record") as recording:
        engine = WebSearch("searxng@http://here", recording=recording)
        request = {"query": "a", "topk": 3}
        recording.keep(engine._port.key(request, None), engine.name, request, RECORDED[name])
        with pytest.raises(EnvFault, match="the recording holds") as caught:
            engine.search("a", 3)
    assert not caught.value.retryable


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_that_passes_is_not_seen(kind):
    with FaultServer(
        lambda path, headers, body: (200, {}, json.dumps(ANSWERS["searxng"]).encode()), {0: kind}
    ) as server:
        engine = Quick(f"searxng@{server.url}", attempt_seconds=0.5, deadline_seconds=20.0)
        try:
            assert engine.search("a", 1) == HITS[:1]
            assert server.count == 2
        except EnvFault as fault:
            assert not fault.retryable and server.count == 1
        assert engine.search("b", 1) == HITS[:1]


def test_retrievers_by_name(keys):
    with answering(ANSWERS["searxng"]) as server:
        engine = make_retriever(f"searxng@{server.url}", None)
        assert isinstance(engine, WebSearch) and copy.deepcopy([engine])[0] is engine
        assert engine.search("Mor", 3) == HITS
    assert make_retriever("serper", None).name == "serper"
    assert [is_outside(name) for name in ("serper", "skyrl@http://here", "bm25", "hybrid", 5, "")] == [True, True] + [
        False
    ] * 4
    with pytest.raises(UsageError, match="searxng@URL"):
        make_retriever("google", None)
