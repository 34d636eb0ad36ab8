"""The tree of sections: opaque ids, navigation, texts, and what is refused."""

import copy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.envs.legal_search.library import Library, Section

SECTIONS = (
    Section("28", "", ("28:STI",), "title", "28", "Commerce", ""),
    Section("28:STI", "28", ("28:2-616", "§ 9 (b)"), "chapter", "STI", "Sales", ""),
    Section("28:2-616", "28:STI", ("28:2-616:(a)",), "section", "28:2-616", "Excuse", "A party may:"),
    Section("28:2-616:(a)", "28:2-616", (), "paragraph", "(a)", "", "terminate;\nor modify."),
    Section("§ 9 (b)", "28:STI", (), "section", "9(b)", "Waiver", "No waiver."),
    Section("x; y:z", "", (), "policy", "", "Privacy", "Nothing is kept."),
)


def library(sections=SECTIONS):
    return Library("small", sections)


def test_ids_are_looked_up_and_never_taken_apart():
    small = library()
    assert [row.id for row in small.path("28:2-616:(a)")] == ["28", "28:STI", "28:2-616", "28:2-616:(a)"]
    assert small.ancestor("28:2-616", 1).id == "28:STI"  # what splitting at the last colon would call "28"
    assert small.ancestor("28:2-616:(a)", 0).id == "28:2-616:(a)"
    assert small.ancestor("28:2-616:(a)", 99).id == "28"
    assert small.read("x; y:z").heading == "Privacy" and small.path("x; y:z") == (small.read("x; y:z"),)
    for unknown in ("28:2", "", "28:2-616:(A)", " 28"):
        for ask in (small.read, small.path, small.breadcrumb, lambda x: small.ancestor(x, 1)):
            with pytest.raises(KeyError):
                ask(unknown)
    with pytest.raises(ValueError, match="up=-1"):
        small.ancestor("28", -1)


def test_what_is_below_comes_in_reading_order_with_labels():
    labels = [section.label for section in library().below("28")]
    assert labels == ["Title 28. Commerce", "Chapter STI. Sales", "§ 28:2-616. Excuse", "(a)", "§ 9(b). Waiver"]
    with pytest.raises(KeyError):
        list(library().below("28:2"))


def test_the_corpus_has_a_passage_for_every_text():
    corpus = library().corpus
    assert [passage.id for passage in corpus.passages] == ["28:2-616", "28:2-616:(a)", "§ 9 (b)", "x; y:z"]
    assert corpus[1].title == "Title 28. Commerce > Chapter STI. Sales > § 28:2-616. Excuse > (a)"
    assert corpus[1].text == "terminate;\nor modify."
    assert library().corpus.digest == corpus.digest


def test_copies_are_shared_and_content_cannot_be_replaced():
    small = library()
    assert copy.deepcopy({"env": small})["env"] is small
    with pytest.raises(TypeError):
        small.sections["28"] = SECTIONS[-1]


@given(st.integers(0, len(SECTIONS) - 1), st.sampled_from(("level", "number", "heading", "text")))
def test_every_part_of_the_content_is_in_the_digest(row, part):
    changed = list(SECTIONS)
    changed[row] = replace(changed[row], **{part: getattr(changed[row], part) + "!"})
    assert library(changed).digest != library().digest
    assert Library("other name", SECTIONS).digest == library().digest


def test_order_and_shape_are_in_the_digest():
    moved = [SECTIONS[-1], *SECTIONS[:-1]]
    assert library(moved).digest != library().digest
    turned = [
        replace(SECTIONS[1], children=SECTIONS[1].children[::-1]) if row == 1 else SECTIONS[row] for row in range(6)
    ]
    assert library(turned).digest != library().digest


@pytest.mark.parametrize(
    "sections",
    [
        (*SECTIONS, SECTIONS[-1]),
        (*SECTIONS, Section("", "", (), "title", "1", "", "")),
        SECTIONS[1:],
        (*SECTIONS, Section("late", "28", (), "section", "1", "", "")),
        (*SECTIONS[:5], replace(SECTIONS[5], children=("gone",))),
        (replace(SECTIONS[0], children=("28:STI", "28:STI")), *SECTIONS[1:]),
        (SECTIONS[0], *SECTIONS[2:]),
    ],
)
def test_broken_trees_are_refused(sections):
    with pytest.raises(ValueError, match="used twice|comes before its parent|disagree, or are doubled"):
        library(sections)


def test_a_library_without_sections_has_nothing_below_them_and_is_another_one():
    rows = [("a", "", ("b", "c")), ("b", "a", ("d",)), ("d", "b", ()), ("c", "a", ())]
    whole = Library("L", [Section(name, above, below, "section", name, "", "text") for name, above, below in rows])
    left = whole.without({"b"})
    assert list(left.sections) == ["a", "c"] and left.read("a").children == ("c",) and left.digest != whole.digest
    assert whole.without(()) is whole and len(whole) == 4
    with pytest.raises(KeyError):
        whole.without({"e"})
