"""The client of search servers: what it sends, the forms of answer it reads, and that everything else is a fault."""

import copy
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.documents import Hit, MemoryCorpus, Passage
from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.services.recording import CallSite, Recording
from agent_envs.tools.retrieval.build import make_retriever
from agent_envs.tools.retrieval.remote import TOKEN_VARIABLE, RemoteRetriever, split_name
from agent_envs.tools.retrieval.wire import read_hits, wire_hit
from tests.examples import examples
from tests.retriever_server import running_server
from tests.rows import each_row
from tests.servers import FAULTS, FaultServer

STYLES = ("search_r1", "skyrl")
NAME = "search_r1@http://here/retrieve"
DOCUMENT = {"id": "p0", "contents": '"Mor"\nA harbour\ntown.'}
HIT = Hit(Passage("p0", "Mor", "A harbour\ntown."), 1.5)
Quick = partial(RemoteRetriever, wait=lambda seconds: None)


def answering(value):
    return FaultServer(lambda path, headers, body: (200, {}, json.dumps(value).encode()))


@pytest.mark.parametrize(
    ("style", "asked"), [("search_r1", {"queries": ["Žagarė?"]}), ("skyrl", {"query": "Žagarė?"})], ids=STYLES
)
def test_each_style_asks_as_its_own_client_does(style, asked):
    with answering({"result": [[{"document": DOCUMENT, "score": 1.5}]]}) as server:
        retriever = RemoteRetriever(style, server.url)
        assert retriever.search("Žagarė?", 2, support=("secret",), seed="secret") == (HIT,)
        ((method, path, headers, body),) = server.requests
    assert (method, path, headers["content-type"]) == ("POST", "/retrieve", "application/json")
    assert json.loads(body) == {**asked, "topk": 2, "return_scores": True} and "authorization" not in headers
    assert retriever.name == f"{style}@{server.url}/retrieve"


def test_a_token_travels_in_a_header_and_shows_nowhere_else(monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, " the-token ")

    def refuse(path, headers, body):
        return (401, {}, json.dumps({"error": f"bad {headers['authorization']}"}).encode())

    with FaultServer(refuse) as server:
        retriever = Quick("skyrl", server.url)
        with pytest.raises(EnvFault) as caught:
            retriever.search("a", 1)
        assert [request[2]["authorization"] for request in server.requests] == ["Bearer the-token"]
    shown = f"{caught.value} {caught.value.__cause__} {retriever!r} {retriever.name}"
    assert "the-token" not in shown and not caught.value.retryable
    monkeypatch.setenv(TOKEN_VARIABLE, "a\nb")
    with pytest.raises(UsageError, match=TOKEN_VARIABLE):
        RemoteRetriever("skyrl", "http://here")


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://here", "http://here/retrieve"),
        ("http://Here:8000/", "http://here:8000/retrieve"),
        ("https://here/v1/search", "https://here/v1/search"),
        ("http://[::1]:80/retrieve/", "http://[::1]:80/retrieve"),
    ],
)
def test_urls(url, place):
    assert split_name(f"skyrl@{url}") == ("skyrl", place)
    assert RemoteRetriever("skyrl", url).name == f"skyrl@{place}"


@each_row(
    "url",
    ["", "here", "localhost:8000", "ftp://here", "http://", "http://here:0x1", "http://here:99999", "http://he re", "file:///etc",
     "http://u:secret@here", "http://u@here", "http://here/?key=secret", "http://here/#secret", "http://here\n", "http://[::1"],
)  # fmt: skip
def test_urls_that_are_none_or_hold_secrets_are_refused_without_showing_them(url):
    with pytest.raises(UsageError, match="retriever search_r1@") as caught:
        split_name(f"search_r1@{url}")
    assert "secret" not in str(caught.value)


def test_names_that_name_no_server():
    assert [split_name(name) for name in ("bm25", "search_r1", "openai@http://here", "@http://here", "")] == [None] * 5
    with pytest.raises(UsageError, match="style='dense'"):
        RemoteRetriever("dense", "http://here")


ODD_FORMS = {
    "flat": {"result": [{"document": DOCUMENT, "score": 1.5}]},
    "int score": {"result": [[{"document": {**DOCUMENT, "more": [1]}, "score": 1.5, "rank": 0}]], "time": 3},
    "title and text": {
        "result": [[{"document": {"id": "p0", "title": "Mor", "text": "A harbour\ntown."}, "score": 1.5}]]
    },
    "all": {"result": [[{"document": {**DOCUMENT, "title": "Mor", "text": "A harbour\ntown."}, "score": 1.5}]]},
    "no quotes": {"result": [[{"document": {"id": "p0", "contents": "Mor\nA harbour\ntown."}, "score": 1.5}]]},
}


@pytest.mark.parametrize("name", ODD_FORMS)
def test_forms_of_the_releases(name):
    assert read_hits(ODD_FORMS[name], 3, NAME) == (HIT,)


def test_forms_without_scores_ids_or_hits():
    bare = Hit(HIT.passage, 0.0)
    assert read_hits({"result": [[DOCUMENT]]}, 3, NAME) == read_hits({"result": [DOCUMENT]}, 3, NAME) == (bare,)
    assert read_hits({"result": []}, 3, NAME) == read_hits({"result": [[]]}, 3, NAME) == ()
    assert read_hits({"result": [[DOCUMENT] * 5]}, 2, NAME) == (bare, bare)
    nameless = [
        read_hits({"result": [[{"contents": text}]]}, 1, NAME)[0].passage.id for text in ("a\nb", "a\nc", "a\nb")
    ]
    assert nameless[0] == nameless[2] != nameless[1] and len(nameless[0]) == 16
    assert read_hits({"result": [[{**DOCUMENT, "id": 7}]]}, 1, NAME)[0].passage.id == "7"
    for score in (float("nan"), float("inf"), -float("inf"), None, "1", True, [], 10**400):
        assert read_hits({"result": [[{"document": DOCUMENT, "score": score}]]}, 1, NAME) == (bare,)
    assert read_hits({"result": [[{"contents": "one line"}]]}, 1, NAME)[0].passage.title == "one line"
    assert read_hits({"result": [[{"contents": "\ud800\n\udfff"}]]}, 1, NAME)[0].passage.text == "?"


WRONG = {
    "null": (None, '"result"'),
    "list": ([], '"result"'),
    "text": ("result", '"result"'),
    "error": ({"error": "no \ud800 index"}, "it says 'no ? index'"),
    "error object": ({"error": {"a": 1}}, '"result"'),
    "result null": ({"result": None}, '"result"'),
    "result object": ({"result": {}}, '"result"'),
    "two lists": ({"result": [[], []]}, "2 lists"),
    "mixed": ({"result": [DOCUMENT, []]}, "2 lists"),
    "hit null": ({"result": [[None]]}, "hit 0 is no object"),
    "hit text": ({"result": ["a"]}, "hit 0 is no object"),
    "hit list": ({"result": [[[DOCUMENT]]]}, "hit 0 is no object"),
    "second hit": ({"result": [[DOCUMENT, {"document": "a"}]]}, "hit 1 has a document that is no object"),
    "document null": ({"result": [[{"document": None}]]}, "document that is no object"),
    "no text": ({"result": [[{"document": {"id": "a"}}]]}, 'neither "contents" nor'),
    "title alone": ({"result": [[{"document": {"id": "a", "title": "b", "text": 5}}]]}, 'neither "contents" nor'),
    "contents number": ({"result": [[{"contents": 5}]]}, 'neither "contents" nor'),
    "id list": ({"result": [[{**DOCUMENT, "id": []}]]}, "an id that is"),
    "id true": ({"result": [[{**DOCUMENT, "id": True}]]}, "an id that is"),
    "id huge": ({"result": [[{**DOCUMENT, "id": 10**18}]]}, "an id that is"),
    "id long": ({"result": [[{**DOCUMENT, "id": "a" * 1_001}]]}, "an id that is"),
    "passage long": ({"result": [[{"contents": "a\n" + "b" * 100_000}]]}, "more than 100,000 characters"),
}


@each_row("name", WRONG)
def test_every_other_form_is_a_fault_that_says_what_was_wrong(name):
    value, words = WRONG[name]
    with pytest.raises(EnvFault) as caught:
        read_hits(value, 3, NAME)
    assert caught.value.cause.startswith(f"{NAME}: the answer has another form") and words in caught.value.cause
    assert not caught.value.retryable and len(caught.value.cause) < 400


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["result", "document", "contents", "id", "title", "text", "score"]), inner),
    ),
    max_leaves=12,
)


@examples(300)
@given(JSON | st.fixed_dictionaries({"result": JSON}) | st.fixed_dictionaries({"result": st.lists(JSON, max_size=3)}))
def test_any_answer_is_hits_or_a_fault(value):
    try:
        hits = read_hits(value, 2, NAME)
    except EnvFault as fault:
        assert not fault.retryable
        return
    assert len(hits) <= 2
    assert read_hits({"result": [[wire_hit(hit) for hit in hits]]}, 2, NAME) == hits


@examples(200)
@given(st.text(min_size=1), st.text(), st.text(), st.floats(allow_nan=False, allow_infinity=False))
def test_every_passage_survives_the_wire(identity, title, text, score):
    hit = Hit(Passage(identity, title, text), score)
    travelled = json.loads(json.dumps({"result": [[wire_hit(hit)]]}))
    assert read_hits(travelled, 1, NAME) == (hit,)


def test_a_policy_cannot_break_a_servers_limits():
    corpus = MemoryCorpus([Passage("p0", "Mor", "A harbour town.")])
    bm25 = make_retriever("bm25", corpus)
    with running_server(bm25) as url:
        for style in STYLES:
            retriever = Quick(style, url)
            for query in (
                "harbour " * 125_000,
                "\ud800harbour\udc00",
                "\x00",
                '"}], "topk": 9',
                "harbour " * 512 + "x",
            ):
                assert retriever.search(query, 3) == bm25.search(query, 3)
            assert retriever.search("harbour", 100) == bm25.search("harbour", 100)
            assert retriever.search("harbour", 0) == ()


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_that_passes_is_not_seen(kind):
    reply = json.dumps({"result": [[{"document": DOCUMENT, "score": 1.5}]]}).encode()
    with FaultServer(lambda path, headers, body: (200, {}, reply), {0: kind}) as server:
        retriever = Quick("search_r1", server.url, attempt_seconds=0.5, deadline_seconds=20.0)
        try:
            assert retriever.search("a", 1) == (HIT,)
            assert server.count == 2
        except EnvFault as fault:
            # What will not get better is not tried again.
            assert not fault.retryable and server.count == 1
        assert retriever.search("b", 1) == (HIT,)


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_that_stays_is_raised(kind):
    with FaultServer(faults=lambda ordinal: kind) as server:
        retriever = Quick("search_r1", server.url, attempt_seconds=0.2, deadline_seconds=20.0)
        with pytest.raises(EnvFault, match=f"^{retriever.name}: "):
            retriever.search("a", 1)
        assert 1 <= server.count <= (31 if kind == "overloaded" else 10)  # an overload is no attempt


def test_a_dead_server_is_a_fault():
    with answering({}) as server:
        url = server.url
    with pytest.raises(EnvFault, match="attempt 5 of 5") as caught:
        Quick("skyrl", url).search("a", 1)
    assert caught.value.retryable


def test_a_recording_asks_once_and_replays_without_a_server(tmp_path):
    with answering({"result": [[{"document": DOCUMENT, "score": 1.5}]]}) as server:
        with Recording(tmp_path / "calls.jsonl", "record") as recording:
            retriever = RemoteRetriever("search_r1", server.url, recording=recording)
            assert [retriever.search("a", 1, seed=seed) for seed in "xyz"] == [(HIT,)] * 3
        assert server.count == 1
    replay = Recording(tmp_path / "calls.jsonl", "replay")
    again = RemoteRetriever("search_r1", server.url, recording=replay)
    assert again.search("a", 1) == (HIT,)
    with pytest.raises(EnvFault, match="no recording"):
        again.search("b", 1)
    with pytest.raises(EnvFault, match="no recording"):
        RemoteRetriever("skyrl", server.url, recording=replay).search("a", 1)


@pytest.mark.parametrize("response", [None, [], {"result": 5}, {"result": [[{"document": [], "score": 0}]]}])
def test_a_recording_of_something_else_is_a_fault(tmp_path, response):
    path, request = tmp_path / "calls.jsonl", {"query": "a", "topk": 1}
    retriever = RemoteRetriever("skyrl", "http://here")
    with Recording(path, "record") as recording:
        recording.keep(retriever._port.key(request, CallSite("")), retriever.name, request, response)
    with pytest.raises(EnvFault, match="another form"):
        RemoteRetriever("skyrl", "http://here", recording=Recording(path, "replay")).search("a", 1)


def test_wrong_answers_are_not_recorded(tmp_path):
    path = tmp_path / "calls.jsonl"
    with answering({"result": "soon"}) as server, Recording(path, "record") as recording:
        retriever = RemoteRetriever("skyrl", server.url, recording=recording)
        with pytest.raises(EnvFault, match="another form"):
            retriever.search("a", 1)
        assert server.count == 1
    assert "soon" not in path.read_text(encoding="utf-8")


def test_64_threads_share_a_retriever():
    passages = [Passage(f"p{n}", f"Title {n}", f"word{n} shared") for n in range(64)]
    bm25 = make_retriever("bm25", MemoryCorpus(passages))
    with running_server(bm25) as url:
        retriever = copy.deepcopy(RemoteRetriever("search_r1", url))

        def search(number):
            return [retriever.search(f"word{(number + turn) % 64} shared", 2) for turn in range(4)]

        with ThreadPoolExecutor(64) as pool:
            found = list(pool.map(search, range(64)))
    assert found == [[bm25.search(f"word{(n + turn) % 64} shared", 2) for turn in range(4)] for n in range(64)]
