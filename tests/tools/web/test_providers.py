"""Any answer of a search engine is parsed into hits or raises a fault, and queries are cut to each engine's limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import EnvFault
from agent_envs.tools.web.providers import PROVIDERS, query_as_sent, read_answer
from tests.examples import examples
from tests.rows import each_row

STYLES = tuple(PROVIDERS)


WRONG = {
    "serper": [None, [], "organic", {}, {"message": "no"}, {"organic": None}, {"organic": {}}, {"organic": [None]},
               {"organic": [{}]}, {"organic": [{"link": 5}]}, {"organic": [{"link": "http://a.example", "title": 5}]}],
    "brave": [{}, {"web": []}, {"web": None}, {"web": {}}, {"web": {"results": None}}, {"web": {"results": ["a"]}}],
    "searxng": [{}, {"results": {}}, {"results": [[]]}, {"results": [{"url": "http://a.example", "content": []}]}],
}  # fmt: skip


@each_row(("style", "answer"), [(style, answer) for style in WRONG for answer in WRONG[style]])
def test_every_other_form_is_a_fault(style, answer):
    with pytest.raises(EnvFault) as caught:
        read_answer(PROVIDERS[style], answer, 3, style)
    assert caught.value.cause.startswith(f"{style}: the answer has another form") and not caught.value.retryable


def test_nothing_found_is_no_fault_but_engines_that_are_silent_are():
    assert read_answer(PROVIDERS["serper"], {"searchParameters": {}}, 3, "x") == ()
    assert read_answer(PROVIDERS["brave"], {"type": "search", "query": {}}, 3, "x") == ()
    assert read_answer(PROVIDERS["searxng"], {"results": [], "unresponsive_engines": []}, 3, "x") == ()
    with pytest.raises(EnvFault, match="none of its engines answered") as caught:
        read_answer(PROVIDERS["searxng"], {"results": [], "unresponsive_engines": [["google", "CAPTCHA"]]}, 3, "x")
    assert caught.value.retryable


def test_texts_are_bounded_and_plain():
    row = {"url": "http://a.example/", "title": "<b>A</b> &amp;&#x27;\n" + "t" * 900, "description": "<p>x</p>" * 9_000}
    (hit,) = read_answer(PROVIDERS["brave"], {"web": {"results": [row]}}, 9, "x")
    assert hit.passage.title.startswith("A &' ttt") and len(hit.passage.title) == 300
    assert hit.passage.text.startswith("x x x") and len(hit.passage.text) <= 2_000
    row = {"link": "http://a.example/", "title": "a < b\x1b[31m\ud800", "snippet": "&amp; " * 4_000}
    (hit,) = read_answer(PROVIDERS["serper"], {"organic": [row]}, 9, "x")
    assert hit.passage.title == "a < b [31m" and len(hit.passage.text) <= 2_000 and hit.passage.text.startswith("&amp;")


@each_row(
    "url",
    ["", "mor.example", "javascript:alert(1)", "data:,", "http://", "http://[", "http://a b/", "http://a.example/\n",
     "http://a.example/" + "a" * 2_048, "/relative", "file:///etc/passwd", "http://a.example/\u202e"],
)  # fmt: skip
def test_results_that_no_reader_could_open_are_dropped(url):
    rows = [{"url": url, "title": "x"}, {"url": "http://a.example", "title": "y"}]
    assert [hit.passage.id for hit in read_answer(PROVIDERS["searxng"], {"results": rows}, 9, "x")] == [
        "http://a.example"
    ]


def test_an_answer_is_read_no_further_than_needed():
    rows = [{"url": f"http://a.example/{number}"} for number in range(100_000)]
    assert len(read_answer(PROVIDERS["searxng"], {"results": rows}, 20, "x")) == 20


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just("http://a.example")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["organic", "web", "results", "link", "url", "title", "snippet", "type"]), inner
        ),
    ),
    max_leaves=12,
)


@examples(150)
@given(st.sampled_from(STYLES), JSON)
def test_any_answer_is_hits_or_a_fault(style, value):
    try:
        hits = read_answer(PROVIDERS[style], value, 2, style)
    except EnvFault:
        return
    assert len(hits) <= 2 and all(hit.passage.id.startswith("http") for hit in hits)


@examples(300)
@given(st.text(max_size=50), st.integers(1, 60))
def test_queries_keep_every_engines_limits(text, times):
    sent = query_as_sent(text * times)
    assert len(sent) <= 400 and len(sent.split()) <= 50 and sent == query_as_sent(sent)
    assert "\n" not in sent and sent.encode() is not None


def test_long_queries():
    assert query_as_sent("word " * 1_000_000) == " ".join(["word"] * 50)
    assert query_as_sent("a" * 10**6) == "a" * 400
    assert query_as_sent("two\t\nlines\x00 \ud800 x") == "two lines x"
