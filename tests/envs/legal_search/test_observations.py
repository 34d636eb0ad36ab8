"""Extracts are bounded and centred on the match; pages together hold the whole section, and name what they show."""

from hypothesis import given
from hypothesis import strategies as st

from agent_envs.envs.legal_search.library import Library, Section
from agent_envs.envs.legal_search.observations import NOTHING, page_of, results, snippet
from tests.envs.legal_search.small import CHAPTER, DUES, FEES, LIBRARY, LONG, LONG_TEXT, ROOT, TERM


def test_an_extract_is_centred_on_where_the_words_stand_together():
    text = "harbour " + "filler words of no use " * 40 + "the harbour master sets dues " + "more of the same text " * 40
    found = snippet(text, "dues of the harbour", 120)
    assert "harbour master sets dues" in found
    assert found.startswith("... ") and found.endswith(" ...") and len(found) <= 120
    before, after = found.split("harbour master sets dues")
    assert abs(len(before) - len(after)) < 30


def test_an_extract_without_a_match_is_the_beginning_and_a_short_text_is_whole():
    text = "Alpha beta gamma. " * 50
    assert snippet(text, "zebra", 60).startswith("Alpha beta")
    assert snippet("Alpha  beta\ngamma.", "gamma", 60) == "Alpha beta gamma."


WORDS = st.lists(st.sampled_from(["dues", "harbour", "x", "mooring-fee", "§", "ferry" * 30, "ﬁ", "İ"]), max_size=80)


@given(
    text=WORDS.map(" ".join) | st.text(max_size=2000), query=WORDS.map(" ".join) | st.text(), size=st.integers(40, 300)
)
def test_extracts_are_bounded_and_part_of_the_text(text, query, size):
    found = snippet(text, query, size)
    whole = " ".join(text.split())
    assert len(found) <= size
    assert found.removeprefix("... ").removesuffix(" ...").strip() in whole or found == whole
    if whole:
        assert found.strip()


def test_results_name_id_place_and_extract():
    from agent_envs.base.documents import Hit

    corpus = LIBRARY.corpus
    text = results([Hit(corpus[corpus.row(DUES)], 1.0)], "small vessel", 200)
    assert text.splitlines()[0] == f"1. ID: {DUES}"
    assert "Harbours > " in text and text.endswith("for a small vessel, $120 a year.")
    assert results([], "x", 200) == NOTHING


def test_a_section_that_fits_is_shown_with_all_below_it():
    page = page_of(LIBRARY, LIBRARY.read(FEES), 1, 4000)
    assert page is not None
    assert page.ids == (FEES, DUES)
    assert f"ID: {DUES} |" in page.text and "$120" in page.text and f"Above: {CHAPTER}" in page.text
    assert "Page:" not in page.text
    assert [page_of(LIBRARY, LIBRARY.read(FEES), number, 4000) for number in (2, 0, -1)] == [None] * 3


def test_what_does_not_fit_is_listed_by_id_and_not_counted_as_read():
    page = page_of(LIBRARY, LIBRARY.read(CHAPTER), 1, 1000)
    assert page is not None
    assert page.ids == () and "vessel" not in page.text
    for child in (FEES, TERM, LONG):
        assert f"ID: {child} |" in page.text
    assert "nothing, this is a root" in page_of(LIBRARY, LIBRARY.read(ROOT), 1, 1000).text


def test_pages_together_hold_a_long_section_and_break_between_words():
    pages = []
    while (page := page_of(LIBRARY, LIBRARY.read(LONG), len(pages) + 1, 1000)) is not None:
        pages.append(page)
    assert len(pages) > 10
    bodies = [page.text.partition("\n\n")[2] for page in pages]
    assert "".join(bodies).split() == LONG_TEXT.split()
    assert all(len(body) <= 1000 for body in bodies) and all(page.ids == (LONG,) for page in pages)
    assert f"Page: 2 of {len(pages)}" in pages[1].text


@given(
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), min_size=1, max_size=6),
    size=st.integers(200, 400),
)
def test_any_section_can_be_read_to_its_end(texts, size):
    names = [f"s{n}" for n in range(len(texts))]
    rows = [Section("top", "", tuple(names[1:]), "section", "1", "Top", texts[0])]
    rows += [
        Section(name, "top", (), "paragraph", "", "", text) for name, text in zip(names[1:], texts[1:], strict=True)
    ]
    library = Library("any", rows)
    bodies, shown = [], set()
    while (page := page_of(library, library.read("top"), len(bodies) + 1, size)) is not None:
        bodies.append(page.text.partition("\n\n")[2])
        shown |= set(page.ids)
        assert len(bodies) < 50
    assert bodies and shown <= {row.id for row in rows if row.text}
    assert "".join(texts[0].split()) in "".join("".join(bodies).split())
