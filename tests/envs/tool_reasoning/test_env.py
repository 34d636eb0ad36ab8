"""Tool reasoning as a policy meets it: what each tool shows, what is refused, and what a fork keeps."""

import json

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.envs.tool_reasoning.env import ToolReasoning
from agent_envs.services.chat import ScriptedChat
from agent_envs.services.recording import Recording, read_answers
from agent_envs.services.run_services import Services
from tests.rows import each_row

ID = "agent_envs/ToolReasoning-v0"


def begun(task=1, **arguments):
    env = gym.make(ID, **arguments)
    env.reset(seed=0, options={"task": task, "split": "test"})
    return env


def run(code):
    return f"<think>x</think><python>{code}</python>"


def test_the_prompt_states_tools_limits_and_the_language():
    env = begun(max_searches=3, max_browses=4, max_programs=2, max_generations=7, top_k=2)
    text = env.unwrapped.episode.prompt[0].content
    assert "You have 3 searches" in text and "You can open 4" in text and "You can run 2" in text
    assert "The best 2 pages" in text and "You have 7 turns" in text
    assert "The interpreter runs a subset of Python 3" in text
    assert text.endswith(f"Question: {env.unwrapped.episode.task.question}")
    assert "$" not in text and "@python -" not in text and "\n@" not in text


def test_a_tool_that_is_not_offered_is_not_named():
    text = begun(tools=["search"]).unwrapped.episode.prompt[0].content
    assert "<search>" in text and "python" not in text.lower() and "browse" not in text
    text = begun(tools=["python"], protocol="json").unwrapped.episode.prompt[0].content
    assert '"name": "python"' in text and "search" not in text


def test_a_search_shows_ids_titles_and_extracts():
    env = begun(top_k=2)
    observation, *_ = env.step("<search>novel published year</search>")
    assert observation.startswith("\n<result>\nPage 1 [") and observation.endswith("\n</result>\n")
    assert observation.count("Page ") == 2
    result = env.unwrapped.episode.turns[-1].results[0]
    assert result.name == "search" and len(result.ids) == 2 and f"[{result.ids[0]}]" in observation


def test_a_search_that_finds_nothing_says_so():
    env = begun(retriever="empty")
    assert "No page matches this query." in env.step("<search>a</search>")[0]
    assert env.unwrapped.episode.state.searches == 1


def test_browse_opens_pages_with_their_links():
    env = begun()
    env.step("<search>novel published year</search>")
    found = env.unwrapped.episode.turns[-1].results[0].ids[0]
    observation, *_ = env.step(f"<browse>{found}</browse>")
    assert f"[{found}]" in observation and "\nLinks: " in observation
    link = env.unwrapped.source.links(env.unwrapped.episode.task, found)[0]
    assert f"{link.title} [{link.doc_id}]" in observation
    assert env.step(f"<browse>[{found}]</browse>")[0] == observation, "as it is shown, in brackets"
    again, *_ = env.step(f"<browse>{link.doc_id}</browse>")
    assert env.unwrapped.episode.turns[-1].results[0].ids == (link.doc_id,) and link.title in again


def test_long_pages_are_cut_and_go_on():
    env = begun(page_tokens=50)
    env.step("<search>novel published year</search>")
    found = env.unwrapped.episode.turns[-1].results[0].ids[0]
    whole = env.unwrapped.source.corpus(env.unwrapped.episode.task)
    text = whole[whole.row(found)].text
    parts = []
    for number in (1, 2, 3, 4):
        observation, *_ = env.step(f"<browse>{found} [page {number}]</browse>")
        if "There is no page" in observation:
            break
        assert f", page {number} of " in observation
        parts.append(observation.split("\n")[3])
        assert len(parts[-1]) <= 200
    assert number >= 3 and " ".join(parts) == " ".join(text.split())


@each_row("name", ["nothing", "w-99999", "", "[page 2]", "[]", "[", "w-0001 [page 0]", "w-0001 [page 7]"])
def test_what_cannot_be_opened_is_explained(name):
    env = begun()
    observation, reward, terminated, _, info = env.step(f"<browse>{name}</browse>")
    assert (reward, terminated) == (0.0, False)
    assert info["events"] and "refused" in info["events"][0]
    assert env.unwrapped.episode.turns[-1].results[0].error and "<result>" in observation


def test_names_stay_from_program_to_program():
    env = begun()
    env.step(run("a = 20\ndef twice(x):\n    return 2 * x"))
    observation, *_ = env.step(run("print('so')\ntwice(a) + 2"))
    assert observation == "\n<result>\nso\n42\n</result>\n"
    observation, *_ = env.step(run("b"))
    assert observation == "\n<result>\nNameError: name 'b' is not defined\n</result>\n"
    assert "printed nothing" in env.step(run("c = 1"))[0]
    results = [turn.results[0] for turn in env.unwrapped.episode.turns]
    assert [result.ids[0] for result in results] == ["ok", "ok", "error", "ok"]
    assert all("monty" in result.ids[1] for result in results)


def test_a_program_that_runs_too_long_leaves_names_as_they_were():
    env = begun(cpu_seconds=0.2)
    env.step(run("a = 1"))
    observation, *_ = env.step(run("a = 2\nwhile True:\n    pass"))
    assert "Timeout: more than 0.2 s of processor time\nThe program was stopped" in observation
    assert "\n1\n" in env.step(run("a"))[0]


def test_long_output_is_cut():
    env = begun(output_chars=100)
    observation, *_ = env.step(run("print('x' * 300)"))
    assert observation == f"\n<result>\n{'x' * 100} [cut: 200 of 300 characters]\n</result>\n"


def test_no_output_is_too_much_to_be_recorded():
    env = begun(output_chars=100_000)
    observation, *_ = env.step(run("print('\\x00' * 399_000)\n'\\x00' * 399_000"))
    assert env.unwrapped.episode.turns[-1].results[0].ids[0] == "ok" and "[cut: 299000 of 399000" in observation


def test_each_tool_has_its_own_limit():
    env = begun(max_searches=1, max_browses=0, max_programs=1)
    for action in ("<search>a</search>", run("1")):
        assert "not carried out" not in env.step(action)[0]
    for action, noun in (
        ("<search>a</search>", "1 searches"),
        (run("1"), "1 programs"),
        ("<browse>a</browse>", "0 pages"),
    ):
        observation, _, _, _, info = env.step(action)
        assert f"The call was not carried out: all {noun} are used." in observation and info["events"]
    assert env.unwrapped.episode.state.searches == 1


def test_several_json_calls_are_carried_out_in_order():
    env = begun(protocol="json", max_programs=2)
    assert [row["function"]["name"] for row in env.reset(seed=0)[1]["tools"]] == ["search", "browse", "python"]
    calls = [{"name": "python", "arguments": {"code": code}} for code in ("a = 6", "a * 7", "3")]
    text = "\n".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls)
    _, _, _, _, info = env.step(text)
    assert [(row["role"], row["tool_call_id"]) for row in info["messages"]] == [("tool", f"call_{n}") for n in range(3)]
    assert [row["content"] for row in info["messages"]][1:] == [
        "42",
        "The call was not carried out: all 2 programs are used.",
    ]


def test_a_turn_without_an_action_is_explained():
    observation, reward, *_, info = begun().step("I wonder.")
    assert "held no action" in observation and "<answer>" in observation and reward == 0.0
    assert [event.partition(":")[0] for event in info["events"]] == ["malformed"]


def test_forks_go_their_own_ways_with_their_own_names():
    env = begun()
    env.step(run("a = 1\nb = [1]"))
    twin = agent_envs.fork(env)
    env.step(run("a = 5\nb.append(2)"))
    assert "(1, [1])" in twin.step(run("a, b"))[0]
    assert "(5, [1, 2])" in env.step(run("a, b"))[0]
    other = begun(task=2)
    agent_envs.restore(other, agent_envs.Snapshot.from_bytes(agent_envs.snapshot(env).to_bytes()))
    assert "(5, [1, 2])" in other.step(run("a, b"))[0]


def test_a_recorded_program_replays_without_a_sandbox(tmp_path, monkeypatch):
    def play(recording):
        env = begun()
        env.unwrapped.services = Services(recording)
        env.reset(seed=0, options={"task": 1, "split": "test"})
        steps = [env.step(run(code)) for code in ("a = 3", "a + 1", "a +", "import time\ntime.time()")]
        return steps, env.unwrapped.episode.state

    with Recording(tmp_path / "externals.jsonl", "record") as recording:
        first = play(recording)
    rows = list(read_answers(tmp_path / "externals.jsonl"))
    assert [row["port"] for row in rows] == ["sandbox:monty"] * 4
    assert all(row["response"]["version"] for row in rows)

    def forbidden(*arguments):
        raise AssertionError("a replay ran a program")

    monkeypatch.setattr("agent_envs.envs.tool_reasoning.toolbox.run_cell", forbidden)
    with Recording(tmp_path / "externals.jsonl", "replay") as recording:
        assert play(recording) == first
        env = begun()
        env.unwrapped.services = Services(recording)
        env.reset(seed=0, options={"task": 1, "split": "test"})
        with pytest.raises(EnvFault, match="no recording"):
            env.step(run("print('never recorded')"))


@pytest.mark.parametrize("result", [{"status": "fine"}, {"status": "ok"}, None, "1"])
def test_what_is_no_result_is_a_fault(monkeypatch, result):
    """A recording comes from a stranger: what it holds is read as carefully as a service's answer."""
    answer = {"result": result, "version": "x"}
    monkeypatch.setattr("agent_envs.envs.tool_reasoning.toolbox.Toolbox._run", lambda self, request, seconds: answer)
    with pytest.raises(EnvFault, match="malformed"):
        begun().step(run("1"))


def test_a_reader_sums_pages_up_and_is_told_that_they_are_data():
    asked = []

    def reader(request):
        asked.append(request.messages[0]["content"])
        return f"Summary {len(asked)}."

    env = begun(reader=ScriptedChat(reader))
    env.step("<search>novel published year</search>")
    found = env.unwrapped.episode.turns[-1].results[0].ids[0]
    observation, *_ = env.step(f"<browse>{found}</browse>")
    assert "Summary 1." in observation and "Links" not in observation
    corpus = env.unwrapped.source.corpus(env.unwrapped.episode.task)
    assert json.dumps(corpus[corpus.row(found)].text)[1:-1] in asked[0]
    assert json.dumps(env.unwrapped.episode.task.question) in asked[0]
    assert env.unwrapped.live_service == "scripted"
    with pytest.raises(UsageError, match="live service scripted"):
        agent_envs.solve(env)


def test_an_empty_summary_is_a_fault_and_no_page():
    env = begun(reader=ScriptedChat(lambda request: " "))
    env.step("<search>novel published year</search>")
    found = env.unwrapped.episode.turns[-1].results[0].ids[0]
    with pytest.raises(EnvFault, match="empty summary"):
        env.step(f"<browse>{found}</browse>")


@each_row(
    ("arguments", "told"),
    [
        ({"tasks": "none"}, "tasks='none'"),
        ({"tools": "search"}, "tools='search'"),
        ({"tools": ["fly"]}, "tools=\\['fly'\\]"),
        ({"retriever": "magic"}, "retriever='magic'"),
        ({"browse": "deep"}, "browse='deep'"),
        ({"sandbox": "docker"}, "sandbox='docker'"),
        ({"protocol": "xml"}, "protocol='xml'"),
        ({"reward": "fame"}, "reward='fame'"),
        ({"equality": "feeling"}, "equality='feeling'"),
        ({"max_searches": -1}, "max_searches=-1"),
        ({"max_generations": 0}, "max_generations=0"),
        ({"top_k": True}, "top_k=True"),
        ({"page_tokens": 1}, "page_tokens=1"),
        ({"cpu_seconds": 0}, "cpu_seconds=0"),
        ({"cpu_seconds": float("nan")}, "cpu_seconds=nan"),
        ({"private_hosts": "localhost"}, "private_hosts='localhost'"),
        ({"private_hosts": ["http://localhost"]}, "private_hosts holds 'http://localhost'"),
        ({"reader": 5}, "reader=5"),
        ({"needs": ["luck"]}, "luck"),
        ({"levels": 3}, "levels=3"),
    ],
)
def test_wrong_arguments_are_told_at_once(arguments, told):
    with pytest.raises(UsageError, match=told):
        ToolReasoning(**arguments)


def test_arguments_that_contradict_each_other():
    with pytest.raises(UsageError, match="browse has nothing to open"):
        ToolReasoning(retriever="search_r1@http://localhost:9")
    assert ToolReasoning(tools=["search", "python"], retriever="search_r1@http://localhost:9").offered == (
        "search",
        "python",
    )
    assert ToolReasoning(tools=[]).offered == ()


def test_needs_and_levels_choose_tasks():
    env = gym.make(ID, needs=["both"], levels=[5])
    for index in range(3):
        env.reset(options={"task": index, "split": "test"})
        assert (env.unwrapped.episode.task.data.needs, env.unwrapped.episode.task.data.level) == ("both", "5")
