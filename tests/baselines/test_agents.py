"""Every agent plays whole episodes over both wire formats; procedures ask what they should; faults are no reward."""

from tests.needs import needs, require

require("[envs]", "[anthropic]")

import json

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.base.errors import BudgetSpent, EnvFault, UsageError
from agent_envs.core.env import spec_json
from agent_envs.evaluation.runs.evaluate import make_agent
from agent_envs.rollout.episode_runner import Planned, run_episode
from agent_envs.rollout.policy import Request
from agent_envs.rollout.run_many import run_many
from agent_envs.services.chat import AnthropicChat, ChatReply, ChatRequest, OpenAIChat, ScriptedChat
from agent_envs.services.chat.prices import Price
from agent_envs.services.chat.spending import Budget, SpendingLimits
from baselines.agents import AGENTS, agent_class
from baselines.chat_agent import ChatAgent
from baselines.prompted_tools import example_for
from baselines.prompts import FOLDER
from baselines.scripted_reader import Errors, ScriptedReader
from baselines.self_consistency import ballot
from baselines.view import EpisodeView, final_answer
from tests import ROOT
from tests.services.chat.conftest import serve  # noqa: F401 - a fixture
from tests.services.chat.wire import AnthropicWire, OpenAIWire, Said

OF_MODELS = [name for name in AGENTS if name != "sorting"]
ENV_OF = {"program_of_thought": "Arithmetic", "games": "BabyAI", "tool_agent": "ToolReasoning"}
ARGUMENTS = {"Arithmetic": {"test_words": 0.0}, "ToolReasoning": {"protocol": "json"}}
CLIENTS = {
    "openai": (OpenAIWire, lambda url: OpenAIChat("m", url, api_key="k")),
    "anthropic": (AnthropicWire, lambda url: AnthropicChat("m", url=url, api_key="k")),
}


def text_of(content):
    if isinstance(content, str) or content is None:
        return content or ""
    return "\n".join(str(block.get("text", block.get("content", ""))) for block in content)


def read(body):
    """What the scripted reader says to a body of either format."""
    rows = [{"role": row["role"], "content": text_of(row["content"])} for row in body["messages"]]
    if "system" in body:
        rows.insert(0, {"role": "system", "content": text_of(body["system"])})
    if body.get("tools"):
        return Said("<answer>\\boxed{1}</answer>")
    reply = ScriptedReader().complete(ChatRequest(rows))
    return Said("ACTION: turn left" if "ACTION" in rows[0]["content"] else reply.text)


def environment(agent):
    name = ENV_OF.get(agent, "SearchQA")
    return gym.make(f"agent_envs/{name}-v0", **({} if name == "BabyAI" else ARGUMENTS.get(name, {})))


@pytest.mark.parametrize("client", CLIENTS)
def test_every_agent_speaks_both_formats(client, serve):  # noqa: F811
    wire, model = CLIENTS[client]
    handler = wire(read, key="k")
    url = serve(handler)
    for name in OF_MODELS:
        options = {"samples": 2} if name == "self_consistency" else {}
        policy = agent_class(name)(model(url), **options)
        result = run_episode(environment(name), policy, seed=0, split="dev", task=0)
        assert result.trajectory.turns, name
        assert not any(turn.events for turn in result.trajectory.turns if name != "deep_search"), name
        assert result.usage["calls"] >= 1 and result.usage["input"] > 0, name


def test_a_service_that_fails_is_a_fault_of_every_agent():
    def fail(request):
        raise EnvFault("down", False)

    for name in OF_MODELS:
        policy = agent_class(name)(ScriptedChat(fail), wait=lambda seconds: None)
        env = environment(name)
        ((_, result),) = run_many([Planned("k", spec_json(env), 0, "dev", 0)], policy, pause_seconds=0.0)
        assert result.fault and not result.success, name


def asked_by(name, env_id="SearchQA", replies=None, arguments=None, **options):
    """The requests that an agent makes in an episode, and the actions that it takes."""
    requests = []
    lines = iter(replies or [])

    def speak(request):
        requests.append(request)
        return next(lines, "<answer>x</answer>")

    env = gym.make(f"agent_envs/{env_id}-v0", **(arguments or ARGUMENTS.get(env_id, {})))
    result = run_episode(env, agent_class(name)(ScriptedChat(speak), **options), seed=0, split="dev", task=0)
    return requests, [str(turn.action) for turn in result.trajectory.turns]


def prompts(requests):
    return ["\n".join(str(row["content"]) for row in request.messages) for request in requests]


def test_direct_and_cot_see_no_documents_and_ask_once():
    for name in ("direct", "cot"):
        requests, actions = asked_by(name, replies=["So it is.\n<answer>x</answer>"])
        assert len(requests) == len(actions) == 1 and "<search>" not in prompts(requests)[0]
    assert actions == ["<think>So it is.</think>\n<answer>x</answer>"]


def test_rag_searches_the_question_without_a_model_then_reads():
    requests, actions = asked_by("rag")
    question = prompts(requests)[0].rpartition("Question: ")[2]
    assert actions == [f"<search>{question}</search>", "<answer>x</answer>"]
    assert len(requests) == 1 and "Doc 3(Title:" in prompts(requests)[0]


def test_ircot_searches_its_sentences_until_one_answers():
    lines = ["Ana Vilks built it. More.", "It opened in 1931.", "<answer>1931</answer>"]
    requests, actions = asked_by("ircot", replies=lines, followups=2)
    assert ["built it." in actions[1], "1931." in actions[2], actions[3]] == [True, True, "<answer>1931</answer>"]
    assert "Ana Vilks built it." in prompts(requests)[2] and "More" not in actions[1]
    _, actions = asked_by("ircot", replies=["So the answer is: 1931."], followups=5)
    assert len(actions) == 2


def test_search_o1_reasons_with_notes_in_place_of_documents():
    lines = ["I look.<search>museum city</search>", "Vilks did.", "<answer>Vilks</answer>"]
    requests, actions = asked_by("search_o1", replies=lines)
    first, second, third = prompts(requests)
    assert "Doc 1(Title:" in second and "Query: museum city" in second
    assert "Doc 1(Title:" not in third and "Notes: Vilks did." in third
    assert actions == [
        "<think>I look.</think>\n<search>museum city</search>",
        "<think>Notes: Vilks did.</think>\n<answer>Vilks</answer>",
    ]
    _, actions = asked_by("search_o1", replies=["<search>museum</search>", "n", "<search>Museum</search>"], searches=4)
    assert len(actions) == 2  # a repeated query ends it


def test_react_turns_lines_into_actions_and_back():
    lines = ["Thought: who?\nAction: search[the builder]", "Thought: so.\nAction: finish[Vilks]"]
    requests, actions = asked_by("react", replies=lines)
    assert actions == [
        "<think>who?</think>\n<search>the builder</search>",
        "<think>so.</think>\n<answer>Vilks</answer>",
    ]
    rows = requests[1].messages
    assert rows[2]["content"] == "Thought: who?\nAction: search[the builder]" and rows[3]["content"].startswith(
        "Observation:"
    )


def test_deep_search_keeps_notes_and_sees_the_newest_result_alone():
    lines = [
        "<think>A is B.</think><search>museum</search>",
        "<think>B is C.</think><search>city</search>",
        "<answer>C</answer>",
    ]
    requests, _ = asked_by("deep_search", replies=lines)
    last = prompts(requests)[2]
    assert "1. A is B." in last and "2. B is C." in last and last.count("Doc 1(Title:") == 1
    with pytest.raises(UsageError, match="notes=0"):
        agent_class("deep_search")(ScriptedReader(), notes=0)


def test_a_forced_answer_comes_after_its_turns():
    requests, actions = asked_by("forced_answer", replies=["<search>a</search>", "<answer>x</answer>"], turns=1)
    assert len(actions) == 2 and "<search>" not in prompts(requests)[1].partition("Search results")[0]


def test_a_program_computes_in_the_sandbox_or_in_the_environment():
    _, actions = asked_by("program_of_thought", "Arithmetic", ["```python\nprint(6 / 2)\n```"])
    assert actions == ["#### 3"]
    written, answer = ["<python>print(41 + 1)"], "<answer>\\boxed{42}</answer>"
    requests, actions = asked_by("program_of_thought", "ToolReasoning", written)
    assert len(requests) == 1 and actions == [answer]
    requests, actions = asked_by("program_of_thought", "ToolReasoning", written, {"tools": ["python"]})
    assert len(requests) == 1 and actions == ["<python>print(41 + 1)</python>", answer]


def test_games_show_a_window_of_history_without_thoughts():
    replies = [f"THINK: t{n}\nACTION: turn left" for n in range(6)]
    requests, _ = asked_by("games", "BabyAI", replies + ["ACTION: turn left"] * 200, history=2, condition="robust_cot")
    rows = requests[5].messages
    assert [row["content"] for row in rows if row["role"] == "assistant"] == ["ACTION: turn left"] * 2
    assert "two steps that you could take" in rows[0]["content"]
    with pytest.raises(UsageError, match="condition='x'"):
        agent_class("games")(ScriptedReader(), condition="x")


def test_self_consistency_plays_the_majority():
    lines = ["<answer>a</answer>", "<answer>The b.</answer>", "<answer>b</answer>"]
    requests, actions = asked_by("self_consistency", replies=lines, samples=3)
    assert ballot("#### -5") != ballot("#### 5") == ballot("#### 5.0")
    assert actions == ["<answer>The b.</answer>"] and len({request.seed for request in requests}) == 3
    assert {request.temperature for request in requests} == {0.7}
    with pytest.raises(UsageError, match="samples=0"):
        agent_class("self_consistency")(ScriptedReader(), samples=0)


def test_the_tool_agent_passes_schemas_and_needs_them():
    requests, _ = asked_by("tool_agent", "ToolReasoning", [ChatReply("<answer>\\boxed{1}</answer>")])
    assert {tool["function"]["name"] for tool in requests[0].tools} >= {"search", "python"}
    with pytest.raises(UsageError, match="baseline:tag_agent"):
        asked_by("tool_agent")


def test_sorting_plays_both_faces():
    for env_id in ("Sort", "SortExpA"):
        env = gym.make(f"agent_envs/{env_id}-v0")
        assert run_episode(env, make_agent("baseline:sorting", algorithm="merge"), seed=0, split="dev", task=0).success


@needs("[train]")
def test_short_names_reach_the_runner_and_say_what_is_wrong():
    assert make_agent("baseline:rag", model="openai:m@http://localhost:1").name == "rag:openai:m@http://localhost:1/v1"
    assert make_agent("baselines.ircot:IRCoT", model="openai:m@http://localhost:1", followups=3).followups == 3
    for name, options, said in [
        ("baseline:nobody", {}, "the baselines are direct, cot"),
        ("baseline:rag", {}, "model=openai:MODEL@URL"),
        ("baseline:rag", {"model": "openai:m@http://localhost:1", "top": 3}, "unknown option top"),
        ("trained:no-such-run", {}, "trained:no-such-run|trainers|no-such-run"),
    ]:
        with pytest.raises(UsageError, match=said):
            make_agent(name, **options)


def test_a_turn_without_a_model_costs_nothing_under_a_limit():
    class Thrifty(ChatAgent):
        short = "thrifty"

        def turn(self, view, talk):
            return talk.ask([{"role": "user", "content": "?"}]) if talk.request.turn else "free"

    silent = ScriptedChat(lambda request: ChatReply("x"), "m")
    agent = Thrifty(silent).charged(Budget(SpendingLimits(usd=1.0), {"m": Price(input=1, output=1)}))
    assert agent.act([Request("k", 0, ())])[0].action == "free"
    with pytest.raises(UsageError, match="m: a reply counts no tokens"):
        agent.act([Request("k", 1, ())])


def test_calls_that_a_turn_made_before_a_fault_or_the_limit_are_counted():
    class Twice(ChatAgent):
        short = "twice"

        def turn(self, view, talk):
            talk.ask([{"role": "user", "content": "one"}])
            return talk.ask([{"role": "user", "content": "two"}])

    def say(request):
        if request.messages[0]["content"] == "two":
            raise EnvFault("down", retryable=False)
        return ChatReply("x", usage={"input": 1_000_000, "output": 5, "calls": 1})

    agent = Twice(ScriptedChat(say, "m"))
    with pytest.raises(EnvFault, match="down") as fault:
        agent.act([Request("k", 0, ())])
    with pytest.raises(BudgetSpent, match=r"m: 1\.0000 of 1\.0000 USD") as end:
        agent.charged(Budget(SpendingLimits(usd=1.0), {"m": Price(input=1, output=0)})).act([Request("k", 0, ())])
    assert fault.value.usage == end.value.usage == {"input": 1_000_000, "output": 5, "calls": 1}


def test_answers_are_found_in_every_form():
    cases = {"so <answer> x y </answer> z": "x y", "<answer>\\boxed{a{b}c}</answer>": "a{b}c", "1\n#### 42": "42",
             "The answer is: Lisbon.": "Lisbon", "a\nb": "b", "": ""}  # fmt: skip
    assert {text: final_answer(text) for text in cases} == cases


def test_the_view_reads_limits_and_the_form_of_each_family():
    forms = {"SearchQA": "text", "LegalSearch": "law", "ToolReasoning": "boxed", "Arithmetic": "number"}
    for name, form in forms.items():
        _, info = gym.make(f"agent_envs/{name}-v0").reset(seed=0)
        view = EpisodeView.of(Request("k", 0, tuple(info["messages"]), info["tools"], stop=tuple(info["stop"])))
        assert view._form == form
        assert form == "number" or view.limit("turns") == info["turns_left"]


def test_examples_are_of_train_tasks_and_current():
    from baselines.examples import EXAMPLES, SPLIT, worked

    assert SPLIT == "train"
    for name, env_id in EXAMPLES.items():
        text = (FOLDER / "examples" / f"{name}.md").read_text(encoding="utf-8")
        assert "split train" in text and worked(env_id) in text
        env = gym.make(f"agent_envs/{env_id}-v0")
        _, info = env.reset(seed=0, options={"task": 0, "split": "dev"})
        view = EpisodeView.of(Request("k", 0, tuple(info["messages"]), info["tools"], stop=tuple(info["stop"])))
        assert example_for(view) in text


def test_the_reader_cannot_know_who_asks():
    seen = []
    for name in ("a", "direct", "tag_agent"):
        reader = ScriptedReader(Errors(0.2, 0.3, 0.2), name)
        result = run_episode(
            gym.make("agent_envs/SearchQA-v0"), agent_class("ircot")(reader), seed=0, split="dev", task=3
        )
        seen.append([turn.action for turn in result.trajectory.turns])
    assert seen[0] == seen[1] == seen[2]


def test_an_agent_is_one_short_file_without_torch():
    for name, target in AGENTS.items():
        path = ROOT / "baselines" / f"{target.partition(':')[0]}.py"
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 150, name
        assert "iffers from" in text.partition('"""\n\n')[0] or "Differs" in text, (
            f"{name}: the header says what differs"
        )
    assert issubclass(agent_class("rag"), ChatAgent) and agent_envs.__name__ not in AGENTS
    assert json.dumps(AGENTS)


def test_a_refusal_ends_the_episode_of_every_agent_and_what_a_service_wants_back_goes_back():
    """One call and no action where the model refuses; the opaque part of a reply is on its message in the next request."""
    for name in ("direct", "rag", "tag_agent", "react"):
        model = ScriptedChat([ChatReply("", usage={"calls": 1}, stop_reason="content_filter", refusal="No.")])
        result = run_episode(gym.make("agent_envs/SearchQA-v0"), make_agent(f"baseline:{name}", model=model), seed=0)
        last = result.trajectory.last
        assert (last.action, last.outcome, result.usage["calls"]) == ("", "refused", 1)
    bodies = []

    def speak(request):
        bodies.append([message.get("opaque") for message in request.messages if message["role"] == "assistant"])
        return ChatReply("<search>who</search>" if len(bodies) < 2 else "<answer>x</answer>", opaque="{}")

    run_episode(gym.make("agent_envs/SearchQA-v0"), make_agent("baseline:tag_agent", model=ScriptedChat(speak)), seed=0)
    assert bodies == [[], ["{}"]]
