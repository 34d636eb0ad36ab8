"""Search results are formatted exactly as in Search-R1 and SkyRL, and long observations are marked as truncated."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.documents import Hit, Passage
from agent_envs.envs.search_qa.env import information
from tests.examples import examples

ENGINEER = 'Doc 1(Title: "Ana Vilks") Ana Vilks, an engineer, was born in Žagarė.\nShe drew cranes.'


def test_search_r1_text_to_the_letter(ask):
    env = ask("h0")
    observation, reward, terminated, truncated, info = env.step("<think>who?</think><search> engineer cranes </search>")
    assert observation == f"\n\n<information>{ENGINEER}</information>\n\n"
    assert (reward, terminated, truncated, info["events"]) == (0.0, False, False, [])
    assert info["messages"] == [{"role": "user", "content": observation}]
    result = env.unwrapped.episode.turns[-1].results[0]
    assert (result.name, result.ids, result.error) == ("search", ("p1",), False)
    observation, *_ = env.step("<search>bridge Ana Vilks</search>")
    assert observation.startswith('\n\n<information>Doc 1(Title: "')
    assert '\nDoc 2(Title: "' in observation
    _, reward, terminated, truncated, info = env.step("<answer>zagare</answer>")
    assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)


def test_skyrl_json_text_to_the_letter(ask):
    env = ask("h0", observation_format="skyrl_json")
    observation, *_ = env.step("<search>engineer cranes</search>")
    body = observation.removeprefix("\n<information>").removesuffix("</information>\n")
    assert observation == f"\n<information>{body}</information>\n"
    text = 'Doc 1: "Ana Vilks"\nAna Vilks, an engineer, was born in Žagarė.\nShe drew cranes.\n'
    assert json.loads(body) == {"result": text}
    assert body.isascii() and "\n" not in body and "\\u017dagar\\u0117.\\nShe" in body


def test_nothing_found_is_said_in_the_format_that_was_asked_for(ask):
    words = "No document matches this query."
    for arguments in ({}, {"retriever": "empty"}):
        observation, *_ = ask("h0", **arguments).step("<search>qqqq</search>")
        assert observation == f"\n\n<information>{words}</information>\n\n"
        observation, *_ = ask("h0", observation_format="skyrl_json", **arguments).step("<search>qqqq</search>")
        body = observation.removeprefix("\n<information>").removesuffix("</information>\n")
        assert json.loads(body) == {"result": words}


def test_information_text_from_hypothesis():
    texts = st.text(max_size=60)
    passages = st.lists(st.builds(Passage, st.just("p"), texts, texts), min_size=1, max_size=4)

    @examples(150)
    @given(passages, st.integers(1, 120))
    def holds(found, limit):
        hits = [Hit(passage, 1.0) for passage in found]
        raw = "".join(f'Doc {n}(Title: "{p.title}") {p.text}\n' for n, p in enumerate(found, 1)).strip()
        shown = information(hits, "search_r1", limit)
        inner = shown.removeprefix("\n\n<information>").removesuffix("</information>\n\n")
        assert f"\n\n<information>{inner}</information>\n\n" == shown
        if len(raw) <= limit:
            assert inner == raw
        else:
            assert inner == f"{raw[:limit]} [cut: {len(raw) - limit} of {len(raw)} characters are not shown]\n"
        sky = information(hits, "skyrl_json", limit).removeprefix("\n<information>").removesuffix("</information>\n")
        result = json.loads(sky)["result"]
        full = "".join(f'Doc {n}: "{p.title}"\n{p.text.strip()}\n' for n, p in enumerate(found, 1))
        assert sky.isascii() and "\n" not in sky
        assert result[:limit] == full[:limit]
        assert ("[cut: " in result[limit:]) == (len(full) > limit)

    holds()


@pytest.mark.parametrize("observation_format", ["search_r1", "skyrl_json"])
def test_observations_are_cut_by_characters_and_say_so(ask, observation_format):
    arguments = {"observation_format": observation_format}
    whole, *_ = ask("h0", **arguments).step("<search>Mor bridge flag</search>")
    cut, *_ = ask("h0", max_observation_chars=20, **arguments).step("<search>Mor bridge flag</search>")
    assert "[cut:" not in whole
    assert "[cut: " in cut and "characters are not shown]" in cut
    assert len(cut) < len(whole)
    if observation_format == "skyrl_json":
        body = cut.removeprefix("\n<information>").removesuffix("</information>\n")
        assert json.loads(body)["result"].startswith('Doc 1: "')
        assert len(json.loads(body)["result"].partition(" [cut:")[0]) == 20
