"""The estimate before a run with a model: its first episodes, which belong to the run, and what they say of all."""

import time

import pytest

from agent_envs.base.errors import EnvFault
from agent_envs.evaluation.runs.costs import (
    EPISODES,
    estimate,
    parse_feedback,
    pilot_first,
    prices_of,
    uses_chat_model,
    with_feedback,
)
from agent_envs.evaluation.runs.evaluate import evaluate, resume
from agent_envs.evaluation.runs.measures import EpisodeNumbers
from agent_envs.evaluation.runs.run_folder import RunPrices, Settings, open_run
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite, plan_of
from agent_envs.evaluation.suites.suite import Suite
from agent_envs.rollout.chat_policy import ChatPolicy
from agent_envs.services.chat.model import ChatReply, ScriptedChat
from agent_envs.services.chat.named import make_chat_model

SMALL = {"world": {"passages": 60, "questions_per_world": 2}}
MODEL = "openai:gpt-4o@http://127.0.0.1:9/v1"  # its price is known; nobody calls it here


def small(**more):
    return adhoc_suite(Choice(**{"env_id": "SearchQA", "arguments": SMALL, "limit": 8, **more}))


class Talker:
    """A chat model that answers at once, counts its calls, and notes how many were made when somebody was told something."""

    def __init__(self, fault=False, seconds=0.0):
        self.calls, self.told, self.fault, self.seconds = 0, [], fault, seconds
        self.policy = ChatPolicy(ScriptedChat(self.reply, name=MODEL), name=MODEL)

    def reply(self, request):
        self.calls += 1
        time.sleep(self.seconds)
        if self.fault:
            raise EnvFault("it is out", retryable=False)
        usage = {"input": 1_000, "output": 10, "calls": 1}
        return ChatReply("<answer>x</answer>", usage=usage)

    def tell(self, text):
        self.told.append((self.calls, text))


def numbers(entry, status="terminated", **usage):
    return EpisodeNumbers(entry, "t", "c", 0, status, "solved", usage=usage)


def several(trials=2):
    first, other = small().entries[0], small(split="dev").entries[0]
    entries = (first, other.model_copy(update={"label": "other", "tasks": other.tasks[:2]}))
    return Suite(**{**dict(small(trials=trials)), "scored": True, "entries": entries})


def test_the_pilot_is_of_every_entry_and_of_different_tasks():
    suite = several()
    plan, count = pilot_first(suite, plan_of(suite))
    assert sorted(item.key for item in plan) == sorted(item.key for item in plan_of(suite)) and count == 4
    entries = {key: entry.label for key, entry, *_ in suite.episodes()}
    assert [entries[item.key] for item in plan[:4]] == [suite.entries[0].label] * 2 + ["other"] * 2
    assert len({item.task for item in plan[:4]}) == 4 and {item.trial for item in plan[:4]} == {0}
    plain = small()
    assert pilot_first(plain, plan_of(plain)) == (plan_of(plain), EPISODES)  # nothing moves where there is no need


def test_each_entry_counts_with_its_own_episodes_and_feedback_too():
    suite = several()  # 8 tasks and 2, twice each
    rows = [(numbers(suite.entries[0].label, calls=2, input=100, output=1), 0.5),
            (numbers(suite.entries[0].label, calls=4, input=300, output=3, feedback_input=100), 0.7),
            (numbers("other", calls=1, input=10, output=1), 0.1)]  # fmt: skip
    text = estimate(suite, rows, 5.0)
    assert "estimate from 3 episodes, which count: 52 calls, 4,040 tokens in, 36 out, 10.0000 USD in all" in text
    assert text.endswith("--max-cost 5 ends the run before that") and "--max-cost" not in estimate(suite, rows, 11.0)
    assert "no price is known in all" in estimate(suite, [(rows[0][0], None), *rows[1:]], 5.0)
    gone = [rows[0], (numbers("other", status="fault"), 0.0)]
    assert estimate(suite, gone, None) == "no estimate: no episode of the pilot came to its end in other"


@pytest.mark.parametrize("concurrency", [1, 4])
def test_the_estimate_comes_before_the_rest_and_its_episodes_are_played_once(tmp_path, concurrency):
    talker, ticks = Talker(seconds=0.3), []
    settings = Settings(MODEL, concurrency=concurrency)
    result = evaluate(
        small(trials=3), settings, policy=talker.policy, folder=tmp_path, progress=lambda *row: ticks.append(row),
        tell=talker.tell,
    )  # fmt: skip
    ((calls, text),) = talker.told
    # Whoever is free begins the next episode while the last of the pilot is played.
    assert EPISODES <= calls <= 2 * EPISODES and talker.calls == 24 and result.complete
    assert [row[0] for row in ticks] == [1, 2, 3, *range(1, 25)] and [row[3] for row in ticks[:4]] == ["pilot"] * 3 + [
        ""
    ]
    cost = 24 * (1_000 * 2.5 + 10 * 10) / 1e6
    assert text.startswith(
        f"estimate from 3 episodes, which count: 24 calls, 24,000 tokens in, 240 out, {cost:.4f} USD"
    )
    assert result.cost_usd == pytest.approx(cost)
    assert len(list(open_run(tmp_path).rows())) == 24


def test_nobody_is_told_where_no_model_plays_or_all_of_it_is_a_pilot(tmp_path):
    talker = Talker()
    evaluate(small(), Settings("random"), folder=tmp_path / "a", tell=talker.tell)
    evaluate(small(limit=2), Settings(MODEL), policy=talker.policy, folder=tmp_path / "b", tell=talker.tell)
    assert talker.told == []


def test_a_model_that_only_fails_gives_no_estimate(tmp_path):
    talker = Talker(fault=True)
    result = evaluate(small(), Settings(MODEL), policy=talker.policy, folder=tmp_path, tell=talker.tell)
    assert talker.told[0][1].startswith("no estimate:") and result.summaries[0].faults == 8


def test_a_run_that_began_with_a_pilot_goes_on(tmp_path, monkeypatch):
    def stop(*row):
        raise KeyboardInterrupt

    talker, suite = Talker(), several()
    with pytest.raises(KeyboardInterrupt):
        evaluate(suite, Settings(MODEL), policy=talker.policy, folder=tmp_path, progress=stop, tell=talker.tell)
    again = Talker()
    monkeypatch.setattr("agent_envs.evaluation.runs.evaluate.make_agent", lambda name, **options: again.policy)
    assert resume(tmp_path).complete
    assert talker.calls + again.calls == 20 and again.told == []


def test_a_finished_run_greets_no_model(tmp_path, monkeypatch):
    talker = Talker()
    evaluate(small(), Settings(MODEL), policy=talker.policy, folder=tmp_path)
    real = ChatPolicy(make_chat_model(MODEL), name=MODEL)  # nothing listens there
    monkeypatch.setattr("agent_envs.evaluation.runs.evaluate.make_agent", lambda name, **options: real)
    assert resume(tmp_path).complete
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(EnvFault, match="does the server run"):
        resume(tmp_path)


def test_who_asks_a_model():
    def asks(agent, suite=None, **options):
        settings = Settings(agent, options)
        return uses_chat_model(suite or small(), settings, prices_of(suite or small(), settings))

    assert asks(MODEL) and asks("openai:mine@http://127.0.0.1:9/v1") and asks("baseline:react", model="openai:mine")
    assert not asks("random") and not asks("mine:Agent", model=3)
    assert asks("null", with_feedback(small(), parse_feedback("openai:mine@http://127.0.0.1:9/v1", None, "", {})))
    assert not uses_chat_model(small(), Settings("mine:Agent"), RunPrices())
