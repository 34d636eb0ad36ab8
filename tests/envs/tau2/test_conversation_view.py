"""Both sides of a conversation for readers: all of it, what changed, and nothing of what is expected before the end."""

import random
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.core.conversation_view import ConversationView, ViewCheck, ViewEntry
from agent_envs.core.registry import companion
from agent_envs.envs.tau2.database import frozen
from agent_envs.envs.tau2.scoring import result_of
from agent_envs.envs.tau2.solver import random_action
from agent_envs.envs.tau2.state_diff import differences
from agent_envs.evaluation.html.page import Transcript, draw
from agent_envs.evaluation.html.view import write_view
from agent_envs.evaluation.runs.evaluate import evaluate
from agent_envs.evaluation.runs.run_folder import Settings
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.rollout.policy import CompanionPolicy, Reply, Request
from tests.envs.tau2.recorded import builtin_rows
from tests.envs.tau2.users.test_chat import model as customer
from tests.evaluation.html.test_page import Reader
from tests.evaluation.html.test_view import FORBIDDEN, checked
from tests.hostile_texts import HOSTILE
from tests.rows import each_row
from tests.services.chat.faulty import FaultyServer
from tests.services.chat.wire import OpenAIWire

IDS = {name: f"agent_envs/Tau2{name.title()}-v0" for name in ("retail", "airline", "telecom")}
FACES = [(name, side) for name in IDS for side in ("agent", "user")] + [("telecom", "solo")]
AIRPLANE = ("telecom", "telecom-test-airplane")


def begun(name: str, task: str, split: str = "test", **arguments):
    env = gym.make(IDS[name], tasks="builtin", **{"user": "replay", "agent": "replay", **arguments})
    env.reset(seed=0, options={"task": task, "split": split})
    return env


def lanes_of(env) -> ConversationView:
    return companion(env, "conversation_view")(env)


def solved(env) -> ConversationView:
    for action in agent_envs.solve(env):
        env.step(action)
    return lanes_of(env)


def tasks_of(name):
    return [(split, row["id"]) for split, rows in builtin_rows(name).items() for row in rows]


def test_what_both_sides_said_and_did_and_what_changed():
    told = solved(begun(*AIRPLANE))
    assert [(lane.name, lane.note) for lane in told.participants] == [
        ("agent", "played by the policy"), ("customer", "simulated: replay")
    ]  # fmt: skip
    last = [entry for entry in told.entries if entry.turn == 4]
    assert [(entry.participant, entry.kind) for entry in last] == [
        ("agent", "words"), ("customer", "call"), ("customer", "result"), ("customer", "change"),
        ("customer", "call"), ("customer", "result"), ("customer", "words"),
    ]  # fmt: skip
    change = last[3]
    assert change.title == "customer's device" and change.mark == "as expected"
    assert change.text.split("\n")[0] == "airplane_mode: true \u2192 false"
    scenario = told.entries[0]
    assert (scenario.participant, scenario.kind, scenario.turn) == ("customer", "note", 0)
    assert "Reason for call" in scenario.text
    assert "customer's device airplane_mode: false \u2192 true" in told.entries[1].text
    assert dict(told.facts)["official reward"] == "1" and dict(told.facts)["ENV_ASSERTION (counts)"] == "1"
    groups = {check.group.partition(" (")[0]: check for check in told.checks}
    assert set(groups) == {"Expected changes", "Assertions", "Expected actions"}
    assert groups["Expected changes"].verdict == "reached" and groups["Expected changes"].holds is None
    assert groups["Assertions"].holds is True and groups["Expected actions"].text == "customer: toggle_airplane_mode()"


@pytest.mark.parametrize(("name", "side"), FACES)
def test_of_every_conversation_all_is_told_in_order(name, side):
    for split, task in tasks_of(name):
        env = begun(name, task, split, side=side)
        told = solved(env)
        core = env.unwrapped
        lines = core.episode.state.lines
        entries = [entry for entry in told.entries if entry.kind != "note"]
        assert [entry.text for entry in entries if entry.kind == "words"] == [
            line.text for line in lines if line.text and line.sender != "environment"
        ]
        calls = [place for place, entry in enumerate(entries) if entry.kind == "call"]
        assert [entries[place].title for place in calls] == [call.name for line in lines for call in line.calls]
        assert all(entries[place + 1].kind == "result" for place in calls)
        turns = [entry.turn for entry in told.entries]
        assert turns == sorted(turns) and set(turns) <= set(range(len(core.episode.turns) + 1))
        own = "customer" if side == "user" else "agent"
        spoken = {entry.turn for entry in entries if entry.participant == own and entry.kind in ("words", "call")}
        assert spoken | {0} == set(range(len(core.episode.turns) + 1))
        assert all(check.holds is not False for check in told.checks) is (core.episode.success or side == "user")


def test_nothing_expected_is_told_before_the_end():
    env = begun(*AIRPLANE)
    actions = agent_envs.solve(env)
    for action in actions[:-1]:
        told = lanes_of(env)
        assert told.facts == told.checks == () and not any(entry.mark for entry in told.entries)
        env.step(action)
    env.step(actions[-1])
    assert lanes_of(env).checks


@pytest.mark.parametrize(("name", "side"), FACES)
def test_whatever_an_agent_does_the_last_changes_are_those_that_stand(name, side):
    told = 0
    for number in range(12):
        split, task = random.Random(number).choice(tasks_of(name))
        env = begun(name, task, split, side=side)
        rng, over = random.Random(f"{name} {side} {number}"), False
        while not over:
            _, _, terminated, truncated, _ = env.step(random_action(env, rng))
            over = terminated or truncated
        core = env.unwrapped
        found = lanes_of(env)
        standing = differences(core.rules.domain, core.opened(core.episode.task)[1].world, core.episode.state.world)
        changes = [entry for entry in found.entries if entry.kind == "change"]
        assert {item.record for item in standing} <= {entry.title for entry in changes}
        told += len(found.entries)
        assert draw(Transcript("e1", "", (), core.trajectory, conversation=found)).turns == len(core.episode.turns)
    assert told > 50


def test_turns_that_were_more_than_what_became_of_them_stand_as_they_were_written():
    env = begun(*AIRPLANE)
    wrong = "<tool_call>{nonsense</tool_call>"
    call = '<tool_call>{"arguments": {"phone_number": "555-700-1003"}, "name": "get_customer_by_phone"}</tool_call>'
    for action in (wrong, f"<think>Who is it?</think>{call}", f"Wait. {call}", call, "<think>Hm.</think> Hello?"):
        env.step(action)
    notes = [entry for entry in lanes_of(env).entries if entry.kind == "note" and entry.turn]
    assert [(entry.turn, entry.error) for entry in notes] == [(1, True), (2, False), (3, False), (5, False)]
    assert notes[0].text == wrong and notes[0].title == "A turn that could not be read"
    assert "Who is it?" in notes[1].text and "Wait." in notes[2].text and "Hm." in notes[3].text
    told = lanes_of(env)
    assert [entry.turn for entry in told.entries if entry.kind == "call" and entry.participant == "agent"] == [2, 3, 4]


def test_failed_calls_unexpected_changes_and_missed_ones_are_named():
    env = begun("retail", "retail-test-cancel")
    env.step('cancel_pending_order(order_id="#W404", reason="no longer needed")')
    env.step('modify_user_address(user_id="nadia_petrov_207", address1="1 Way", address2="", city="X", state="NY",'
             ' country="USA", zip="10001")')  # fmt: skip
    over = False
    while not over:
        _, _, terminated, truncated, _ = env.step("Is there anything else?")
        over = terminated or truncated
    told = lanes_of(env)
    assert [entry.error for entry in told.entries if entry.kind in ("call", "result")] == [True, True, False, False]
    verdicts: dict[str, list[ViewCheck]] = {}
    for check in told.checks:
        verdicts.setdefault(check.verdict, []).append(check)
    assert any("status: pending \u2192 cancelled" in check.text for check in verdicts["not reached"])
    assert any("address.city" in check.text for check in verdicts["not expected"])
    assert verdicts["not expected"][0].holds is False and verdicts["not made"][0].holds is None
    assert "not told" in verdicts
    assert not any(entry.mark for entry in told.entries)


def test_remarks_stand_in_words():
    env = begun(*AIRPLANE)
    solved(env)
    core = env.unwrapped
    score = replace(core.score(core.episode.task, core.episode.state, None), notes=("nobody judged",))
    last = replace(core.episode.turns[-1], results=(result_of(score, "user_stop", {}),))
    core._episode = replace(core.episode, turns=(*core.episode.turns[:-1], last))
    told = lanes_of(env)
    assert told.entries[-1] == ViewEntry("", "note", "", "Nobody judged.", turn=4)


def test_criteria_that_cannot_be_read_are_no_obstacle():
    env = begun(*AIRPLANE)
    task = env.unwrapped.episode.task
    for hidden in (None, {"actions": "nonsense"}):
        env.reset(options={"task": replace(task, hidden=frozen(hidden))})
        over = False
        while not over:
            _, _, terminated, truncated, _ = env.step("Goodbye.")
            over = terminated or truncated
        groups = [check.group for check in lanes_of(env).checks]
        assert groups[0] == "Criteria" and set(groups[1:]) <= {"What the customer did beyond its scenario"}


@each_row("name", HOSTILE)
def test_hostile_words_arguments_and_results_stay_texts_on_the_page(name):
    env = begun("retail", "retail-test-cancel")
    text = HOSTILE[name]
    call = {"name": "calculate", "arguments": {"expression": text, text.replace("$", "")[:100]: [text]}}
    lines = (
        text or "-",
        f"<tool_call>{agent_envs.base.serialization.canonical_json(call)}</tool_call>",
        f"<tool_call>{text}",
    )
    for line in lines:
        if not env.unwrapped.episode.over:
            env.step(line)
    core = env.unwrapped
    html = draw(Transcript("e1", "", (), core.trajectory, conversation=lanes_of(env))).html
    reader = Reader(html)
    tags = {tag for tag, _ in reader.elements}
    assert not tags & {"script", "img", "iframe", "form", "svg", "style", "meta", "base", "h1", "link", "input"}
    assert not any(key.startswith("on") or key in ("style", "src") for _, row in reader.elements for key in row)
    assert not FORBIDDEN.search(html)


@pytest.mark.parametrize("name", IDS)
def test_a_run_is_shown_with_both_lanes(name, tmp_path: Path):
    suite = adhoc_suite(Choice(f"Tau2{name.title()}", arguments={"tasks": "builtin", "user": "replay"}, trials=2))
    evaluate(suite, Settings("random"), folder=tmp_path / "run")
    write_view(tmp_path / "run", tmp_path / "view")
    text = checked(tmp_path / "view")["pages/0001.html"].text
    episodes = len(list(suite.episodes()))
    assert text.count("Scenario, which only the customer knows") == episodes
    assert "could not be stepped again" not in text and text.count("played by the policy") == episodes


class Fixer:
    """Says the same four things in every episode, and then asks again."""

    name, batch = "fixer", 1
    words = ("What does the status bar show?", "Switch airplane mode off.", "Does it work?")

    def act(self, requests):
        return [Reply(self.words[min(request.turn - 1, 2)]) for request in requests]


def test_a_customer_that_a_model_played_is_shown_from_the_recording(tmp_path: Path):
    folder, wire = tmp_path / "run", OpenAIWire(customer)
    with FaultyServer(wire) as server:
        arguments = {"tasks": "builtin", "user": f"openai:m@{server.url}"}
        suite = adhoc_suite(Choice("Tau2Telecom", arguments=arguments, split="test"))
        only = [entry.model_copy(update={"tasks": entry.tasks[:1]}) for entry in suite.entries]
        evaluate(suite.model_copy(update={"entries": tuple(only)}), Settings("null"), policy=Fixer(), folder=folder)
        asked = server.count
        write_view(folder, tmp_path / "view")
        assert server.count == asked > 3
    text = checked(tmp_path / "view")["pages/0001.html"].text
    assert (
        "airplane_mode: true \u2192 false" in text and "toggle_airplane_mode" in text and "simulated: openai:m" in text
    )
    (folder / "externals.jsonl").unlink()
    write_view(folder, tmp_path / "view")
    text = checked(tmp_path / "view")["pages/0001.html"].text
    assert "Only the policy's side is shown" in text and "no recording for request" in text


def test_generated_tasks_with_a_scripted_user_are_shown_too():
    for name, env_id in IDS.items():
        env = gym.make(env_id)
        for task in range(3):
            env.reset(seed=task, options={"task": task, "split": "test"})
            policy = CompanionPolicy("solver", env)
            over = False
            while not over:
                _, _, terminated, truncated, _ = env.step(policy.act([Request("", 1, ())])[0].action)
                over = terminated or truncated
            told = lanes_of(env)
            assert "simulated: scripted" in told.participants[1].note, name
            assert all(check.holds is not False for check in told.checks), (name, task, told.checks)
