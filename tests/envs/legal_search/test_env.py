"""The environment: tools, navigation by opaque ids, both styles, limits, forks, judges, and what never shows."""

import json

import pytest

import agent_envs
from agent_envs.base.errors import DataMissing, EnvFault, UsageError
from agent_envs.checker import check_turn_env
from agent_envs.envs.legal_search.env import LegalSearch
from agent_envs.envs.legal_search.outcomes import ended_of
from agent_envs.envs.legal_search.scoring import metrics
from agent_envs.envs.legal_search.tools import ANSWER, KEYWORD, READ, SEMANTIC, rendered
from agent_envs.evaluation.suites.plan import allowed_limits
from agent_envs.services.chat import ScriptedChat
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services
from agent_envs.wrappers import ForcedAnswer
from tests.envs.legal_search.small import CHAPTER, DUES, FEES, LONG, ROOT, TERM, make, play
from tests.examples import part
from tests.rows import each_row


def started(task="fee", **arguments):
    env = make(**arguments)
    env.reset(seed=0, options={"task": task})
    return env


def shown(env, action):
    return env.step(action)[0]


def call(*calls):
    rows = (json.dumps({"name": name, "arguments": arguments}) for name, arguments in calls)
    return "\n".join(f"<tool_call>\n{row}\n</tool_call>" for row in rows)


def test_the_prompt_tells_the_rules_and_ends_with_the_question():
    for protocol, word in (("tags", "<keyword>"), ("json", "keyword_search")):
        observation, info = make(protocol=protocol, max_searches=7).reset(options={"task": "fee"})
        assert word in observation and "10 turns" in observation and "7 searches" in observation
        assert observation.endswith("What does a boat of 9 metres pay a year (in dollars)?")
        assert [tool["function"]["name"] for tool in info["tools"]] == (
            [KEYWORD, SEMANTIC, READ, ANSWER] if protocol == "json" else []
        )
        assert info["stop"] == ([] if protocol == "json" else ["</keyword>", "</semantic>", "</read>", "</answer>"])


def test_ids_with_colons_spaces_and_brackets_are_found_read_and_cited():
    env = started()
    text = shown(env, "<keyword>small vessel $120</keyword>")
    assert f"1. ID: {DUES}" in text
    assert "for a small vessel, $120 a year." in shown(env, f"<read>{DUES}</read>")
    assert env.episode.turns[-1].results[0].ids == (DUES,)
    assert f"ID: {FEES}" in shown(env, f"<read>{DUES} [up 1]</read>")
    assert f"ID: {ROOT}" in shown(env, f"<read>{DUES} [up 99]</read>")
    env.step(f"<answer>120 [sources: {TERM}; {DUES}]</answer>")
    assert ended_of(env.trajectory).sources == (TERM, DUES) and env.episode.success


def test_navigation_up_and_down_by_the_ids_that_are_shown():
    env = started()
    text = shown(env, f"<read>{ROOT}</read>")
    assert f"ID: {CHAPTER} |" in text
    text = shown(env, f"<read>{CHAPTER}</read>")
    below = [line.partition("ID: ")[2].partition(" | ")[0] for line in text.splitlines() if " | " in line]
    assert below == [FEES, TERM, LONG, "T28:STI:x"]
    assert f"Above: {CHAPTER}" in shown(env, f"<read>{TERM}</read>")
    assert "Page: 2 of" in shown(env, f"<read>{LONG} [page 2]</read>")


@pytest.mark.parametrize(
    "action", ["<read>T28:STI:28</read>", "<read>28:2-61</read>", f"<read>{LONG} [page 99]</read>"]
)
def test_a_read_of_nothing_is_explained_counted_and_goes_on(action):
    env = started()
    observation, reward, terminated, _, info = env.step(action)
    assert not terminated and reward == 0 and len(info["events"]) == 1
    assert "There is no section" in observation or "no page 99" in observation


@pytest.mark.parametrize("number", ["28:2-616", "§ 28:2-616"])
def test_a_number_that_one_section_has_is_read_like_its_id(number):
    env = started()
    assert f"ID: {FEES}" in shown(env, f"<read>{number}</read>")
    assert f"ID: {CHAPTER}" in shown(env, f"<read>{number} [up 1]</read>")


def test_searches_beyond_the_limit_are_not_carried_out():
    env = started(max_searches=1)
    env.step("<keyword>vessel</keyword>")
    observation, _, terminated, _, info = env.step("<semantic>vessel</semantic>")
    assert "No search was carried out" in observation and not terminated and info["events"]
    assert env.episode.state.searches == 1
    assert metrics(env.trajectory)["searches"] == 1
    assert "less than 12 metres" in shown(env, f"<read>{TERM}</read>")


def test_the_two_engines_are_two():
    env = started(semantic="empty")
    assert DUES in shown(env, "<keyword>small vessel $120</keyword>")
    assert "No section matches" in shown(env, "<semantic>small vessel $120</semantic>")


def test_the_last_turn_is_carried_out_and_ends_the_episode():
    env = started(max_generations=2)
    env.step("<keyword>vessel</keyword>")
    observation, reward, terminated, truncated, info = env.step(f"<read>{DUES}</read>")
    assert (terminated, truncated, reward, info["success"]) == (False, True, -0.5, False)
    assert "$120" in observation and "last turn" in observation


def test_one_call_a_turn_in_the_json_style_and_every_call_gets_a_result():
    env = started(protocol="json")
    text = call((READ, {"section_id": TERM}), (READ, {"section_id": "no such id"}), (KEYWORD, {"query": "x"}))
    _, _, _, _, info = env.step(text)
    assert [message["tool_call_id"] for message in info["messages"]] == ["call_0", "call_1", "call_2"]
    assert "12 metres" in info["messages"][0]["content"]
    assert all("one call a turn" in message["content"] for message in info["messages"][1:])
    assert env.episode.state.searches == 0
    env.step("<tool_call>\n" + json.dumps({"name": ANSWER, "arguments": {"answer": "120", "sources": [DUES]}}))
    assert env.episode.success and env.episode.turns[-1].terms[3] == ("valid_reads", 0.0)
    assert ended_of(env.trajectory).outcome == "cited"
    assert play("fee", [text, "<answer>I don't know</answer>"], protocol="json")[0] == pytest.approx(0.05 + 0.05 + 0.1)


@pytest.mark.parametrize("protocol", ["tags", "json"])
def test_both_styles_do_the_same(protocol):
    actions = [
        rendered(KEYWORD, protocol, query="small vessel"),
        rendered(SEMANTIC, protocol, query="what a boat pays"),
        rendered(READ, protocol, section_id=DUES, up=1),
        rendered(ANSWER, protocol, answer="120", sources=[DUES]),
    ]
    total, info, env = play("fee", actions, protocol=protocol)
    assert total == pytest.approx(1 + 0.15 + 0.1 + 0.3 * 6 / 9 + 0.3 * 7 / 9) and info["success"]
    assert env.episode.turns[2].results[0].ids == (FEES, DUES)


def test_forks_go_on_alike_and_share_nothing_that_changes():
    env = started()
    env.step("<keyword>vessel</keyword>")
    twin = agent_envs.fork(env)
    twin.step("<keyword>appeal</keyword>")
    assert (env.episode.state.searches, twin.episode.state.searches) == (1, 2)
    assert twin.source.library(None) is env.source.library(None)


@pytest.mark.parametrize("protocol", ["tags", "json"])
def test_a_forced_answer_comes_after_free_turns_or_over_the_first_look(protocol):
    env = ForcedAnswer(make(protocol=protocol), free_turns=1)
    _, info = env.reset(options={"task": "fee"})
    assert info["prefill"] == "" and len(info["messages"]) == 1
    _, _, _, _, info = env.step(rendered(READ, protocol, section_id=DUES))
    assert info["prefill"] == "<answer>"
    _, reward, terminated, _, _ = env.step(f"120 [sources: {DUES}]")
    assert terminated and reward == pytest.approx(1 + 0.15 + 0.1 + 0.3 * 8 / 9 + 0.3)
    env = ForcedAnswer(make(protocol=protocol), free_turns=0)
    observation, info = env.reset(options={"task": "fee"})
    assert info["prefill"] == "<answer>" and "ID: " in info["messages"][-1]["content"]
    assert "ID: " in observation and observation.count("Question: ") == 1
    assert env.step(f"120 [sources: {DUES}]")[2]
    assert metrics(env.unwrapped.trajectory)["searches"] == 0


def strict(request):
    """A judge that wants the dollar sign, whatever the gold says."""
    line = next(line for line in request.messages[0]["content"].splitlines() if line.startswith("CANDIDATE: "))
    return "It has.\nYES" if "$" in line else "It has not.\nNO"


@pytest.mark.parametrize(
    ("answer", "outcome", "agrees"),
    [
        ("$120", "uncited", 1),
        ("120", "wrong", 0),
        ("90", "wrong", 1),
        ("$90", "uncited", 0),
        ("I don't know", "abstained", None),
    ],
)
def test_a_model_judge_decides_and_its_agreement_with_the_metric_is_told(answer, outcome, agrees, tmp_path):
    env = make(judge=ScriptedChat(strict))
    with Recording(tmp_path / "judge.jsonl", "record") as recording:
        env.services = Services(recording)
        env.reset(options={"task": "fee"})
        env.step(f"<answer>{answer}</answer>")
    assert ended_of(env.trajectory).outcome == outcome
    assert metrics(env.trajectory).get("judge_agrees") == agrees
    silent = make(judge=ScriptedChat([]))
    with Recording(tmp_path / "judge.jsonl", "replay") as recording:
        silent.services = Services(recording)
        silent.reset(options={"task": "fee"})
        silent.step(f"<answer>{answer}</answer>")
    assert silent.trajectory == env.trajectory


def test_a_judge_that_fails_is_a_fault_and_no_reward():
    env = started(judge=ScriptedChat([]))
    with pytest.raises(EnvFault):
        env.step("<answer>120</answer>")
    assert env.episode.turns == ()


def test_a_judge_is_not_asked_where_there_is_no_answer():
    total, info, _ = play("gone", ["<answer>the harbour master</answer>"], judge=ScriptedChat([]))
    assert total == -1.0 and not info["success"]


@each_row(
    ("arguments", "name"),
    [
        ({"tasks": ""}, "tasks"), ({"tasks": 3}, "tasks"), ({"tasks": "no_such_source"}, "tasks"),
        ({"semantic": "no such engine"}, "semantic"), ({"keyword": None}, "keyword"),
        ({"protocol": "xml"}, "protocol"), ({"reward": "f1"}, "reward"), ({"judge": "nobody"}, "nobody"),
        ({"max_generations": 0}, "max_generations"), ({"max_searches": -1}, "max_searches"), ({"top_k": 101}, "top_k"),
        ({"top_k": True}, "top_k"), ({"snippet_chars": 10}, "snippet_chars"), ({"page_chars": 1.5}, "page_chars"),
        ({"weights": {"fast": 1}}, "weights"), ({"world": {"continents": 7}}, "world"),
        ({"tasks": "dc_code", "world": {}}, "world"),
    ],
)  # fmt: skip
def test_arguments_out_of_range_are_refused_by_name(arguments, name):
    with pytest.raises(UsageError, match=name):
        LegalSearch(**{"semantic": "bm25", **arguments})


def test_missing_data_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("AGENT_ENVS_DATA", str(tmp_path))
    with pytest.raises(DataMissing, match="dc_code"):
        LegalSearch(tasks="dc_code", semantic="bm25")


def test_the_engine_is_part_of_the_identity():
    digests = {LegalSearch(semantic=name).spec_digest for name in ("bm25", "random", "empty", "oracle")}
    assert len(digests) == 4


def test_twelve_free_turns_fit_the_defaults():
    core = LegalSearch(semantic="bm25")
    assert allowed_limits(core, (0, 1, 2, 3, 4, 6, 8, 10, 12)) == (0, 1, 2, 3, 4, 6, 8, 10, 12)
    assert core.max_searches == 12


def test_the_contract_holds_in_the_papers_reward_by_native_calls():
    report = check_turn_env(
        LegalSearch(semantic="bm25", protocol="json", reward="art_e"), episodes=part(3, 1), hostile=50
    )
    assert report.ok, report.text()
