"""Scripts are played through each adapter, on the real package where one is installed and on the stub of upstream/ elsewhere.

`HOSTS` names a function for each adapter: script -> what the host saw. A host that sees less compares less, as `SEEN` says.
"""

import asyncio
import importlib
import json
import os
import sys
import tempfile
from functools import cache
from types import SimpleNamespace

import gymnasium as gym

from agent_envs.integrations import Session, trl, trl_rollout
from agent_envs.services.chat import ChatRequest
from agent_envs.services.chat.conversation import conversation
from tests.integrations.episodes import Played, Script, as_calls, as_sampled, itself
from tests.integrations.tokenizer import PlantedTokenizer

if not os.environ.get("AGENT_ENVS_HOSTS"):
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "upstream"))
MORE = " and more</search>"  # what a model samples behind a stop string, where nobody stops it
TAGS = (
    "search",
    "answer",
    "calculator",
    "compare",
    "swap",
    "python",
    "browse",
    "read_section",
    "keyword_search",
    "semantic_search",
)
STOPS = tuple(f"</{tag}>" for tag in TAGS)


def adapter(name: str):
    return importlib.import_module(f"agent_envs.integrations.{name}")


def session(played: Script) -> Played:
    """The session that all of them stand on, by itself."""
    player = Session()
    record = Played([player.begin(played.row)])
    for action in played.actions:
        record.shown.append(player.act(action))
    return _closed(record, player)


def _closed(record: Played, player: Session) -> Played:
    record.rewards, record.end, record.success = list(player.rewards), player.end, player.success
    return record


def skyrl(played: Script) -> Played:
    import skyrl_gym

    registry = importlib.import_module("skyrl_gym.envs.registration").registry
    if "agent_envs" not in registry:
        adapter("skyrl").register()
    env = skyrl_gym.make("agent_envs", env_config=None, extras=played.row)
    messages, _ = env.init(played.row["prompt"])
    record = Played([messages])
    for action in played.actions:
        step = env.step(action)
        record.shown.append(step["observations"])
        record.rewards.append(step["reward"])
        record.end, record.success = step["metadata"]["end"], step["metadata"]["success"]
        assert step["done"] == bool(record.end)
    metrics = env.get_metrics()
    assert metrics["return"] == sum(record.rewards) and metrics["success"] == record.success
    env.close()
    return record


def gem(played: Script) -> Played:
    import gem as package

    row = played.row
    name = f"parity:{json.dumps([row['env_id'], row['env_kwargs']])}"
    registry = importlib.import_module("gem.envs.registration").ENV_REGISTRY
    if name not in registry:
        adapter("gem").register(row["env_id"], name, **row["env_kwargs"])
    env = package.make(name, seed=None)
    env.session.begin(row)  # GEM has seeds and no tasks: the row's start, and then GEM's own steps
    record = Played([list(env.session.history)])
    for action in played.actions:
        observation, reward, terminated, truncated, info = env.step(action)
        record.shown.append(info["messages"])
        last = observation.rpartition("\n\nBegin your reply with ")[0] or observation
        assert last == "\n\n".join(message["content"] for message in info["messages"])
        record.rewards.append(reward)
        record.end = "terminated" if terminated else "truncated" if truncated else ""
        record.success = bool(info.get("success"))
    return record


def openenv(played: Script) -> Played:
    """Over a socket of the real application; OpenEnv's clients send and read the same messages."""
    app = _app(played.row["env_id"], json.dumps(played.row["env_kwargs"]))
    with app.opened() if hasattr(app, "opened") else _socket(app) as socket:
        seen = [_asked(socket, "reset", {name: played.row[name] for name in ("seed", "task", "split")})]
        seen += [_asked(socket, "step", {"text": action}) for action in played.actions]
    last = seen[-1]["observation"]
    assert [step["done"] for step in seen] == [False] * len(played.actions) + [True]
    rewards = [step["reward"] for step in seen[1:]]
    return Played([step["observation"]["messages"] for step in seen], rewards, last["end"], last["success"])


@cache
def _app(env_id, arguments):
    return adapter("openenv").create_app(env_id, **json.loads(arguments))


def _socket(app):
    from starlette.testclient import TestClient

    return TestClient(app).websocket_connect("/ws")


def _asked(socket, kind, data):
    socket.send_json({"type": kind, "data": data})
    answer = socket.receive_json()
    assert answer["type"] == "observation", answer
    return answer["data"]


def verifiers(played: Script) -> Played:
    vf = importlib.import_module("verifiers.v1")
    module = adapter("verifiers")
    taskset = module.TurnTaskset
    env = object.__new__(module.TurnEnv)
    interaction = _Interaction(played.actions, vf)
    data = module.TurnData(name="parity", row=played.row)
    agents = SimpleNamespace(player=SimpleNamespace(interaction=lambda task: interaction))
    assert taskset
    asyncio.run(env.run(module.TurnTask(data), agents))
    trace = interaction.trace
    rewards, end = trace.info["rewards"], trace.info["end"]
    assert trace.reward == sum(rewards) and trace.metrics["truncated"] == (end == "truncated")
    return Played(interaction.heard, rewards, end, bool(trace.metrics["success"]))


class _Interaction:
    """The rollout of a scripted model, as verifiers' `Agent.interaction` opens it."""

    def __init__(self, actions, vf) -> None:
        self.actions, self.vf, self.heard = list(actions), vf, []
        self.trace = vf.Trace.model_construct(rewards={}, metrics={}, info={})

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error) -> None:
        return None

    async def turn(self, message=None):
        self.heard.append(message)
        reply = self.vf.AssistantMessage(content=self.actions.pop(0))
        return self.vf.Segment(messages=[reply])


def inspect_ai(played: Script) -> Played:
    done, told = inspected(played)
    return Played([message.text for message in done.messages], told["rewards"], told["end"], told["success"])


def inspected(played: Script, **limits):
    """Return the sample of Inspect's log, and what its score tells; `limits` are those of its `eval`."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    module, actions = adapter("inspect_ai"), list(played.actions)

    def speak(messages, tools, tool_choice, config):
        output = ModelOutput.from_content(model="mockllm", content=actions.pop(0))
        output.usage = ModelUsage(
            input_tokens=1, output_tokens=1, total_tokens=2
        )  # else tokens are counted by a download
        return output

    sample = Sample(input="parity", id="parity", metadata=played.row)
    task = Task(dataset=[sample], solver=module.play(), scorer=module.earned())
    model = get_model("mockllm/model", custom_outputs=speak, memoize=False)
    (log,) = eval(
        task, model=model, display="none", log_format="json", log_samples=True, log_dir=tempfile.mkdtemp(), **limits
    )
    assert log.status == "success", str(log.error.message)[:500]
    (done,) = log.samples
    (score,) = done.scores.values()
    told = score.metadata
    assert score.value == {"success": int(told["success"]), "reward": sum(told["rewards"])}
    return done, told


def trl_tools(played: Script) -> Played:
    """TRL's tool calls, which are methods; a script of turns is played as the calls that it can be written as."""
    played = as_calls(played)
    player = _environment(played.row["env_id"], json.dumps(played.row["env_kwargs"]))()
    assert player.reset(**played.row) is None
    record = Played([texts(played.row["prompt"])])
    for name, arguments in played.calls:
        record.shown.append(getattr(player, name)(**arguments))
    assert getattr(player, name)(**arguments) == trl.OVER and player.get_reward() == sum(player._session.rewards)
    return _closed(record, player._session)


@cache
def _environment(env_id, arguments):
    return trl.environment(env_id, **json.loads(arguments))


def texts(messages):
    return "\n\n".join(message["content"] for message in messages)


def trl_turns(played: Script) -> Played:
    """TRL's rollout function with a model that samples the script's bytes one by one, never the planted pair, and goes on."""
    tokenizer, actions = PlantedTokenizer(), list(as_sampled(played).actions)

    def generate(trainer, prefixes):
        more = MORE if any(actions[0].endswith(end) for end in STOPS) else ""
        ids = [*tokenizer.encode(actions.pop(0) + more, pair=False), tokenizer.eos_token_id]
        return [ids], [[-0.5] * len(ids)]

    trainer = SimpleNamespace(processing_class=tokenizer, max_completion_length=10**9)
    output = trl_rollout.rollout([played.row], generate)([played.row["prompt"]], trainer)
    return Played(masked(tokenizer, output, 0), output["env_reward"], output["env_end"][0])


def masked(tokenizer, output, place):
    """Return the texts of a rollout by runs of the mask, the prompt first."""
    runs = [[0, list(output["prompt_ids"][place])]]
    for token, sampled in zip(output["completion_ids"][place], output["env_mask"][place], strict=True):
        if runs[-1][0] != sampled:
            runs.append([sampled, []])
        runs[-1][1].append(token)
    return [(sampled, tokenizer.decode(ids)) for sampled, ids in runs]


def verl(played: Script) -> Played:
    """verl's own base class keeps the tokens; its server is a model that samples the script's bytes, never the planted pair."""
    tokenizer, actions, sampled = PlantedTokenizer(), list(played.actions), []

    async def generate(request_id, *, prompt_ids, sampling_params, **others):
        ids = [*tokenizer.encode(actions.pop(0), pair=False), tokenizer.eos_token_id]
        sampled.extend(ids)
        return SimpleNamespace(token_ids=ids, log_probs=[-0.5] * len(ids))

    async def play():
        rollout = SimpleNamespace(prompt_length=10**9, response_length=10**9)
        config = SimpleNamespace(actor_rollout_ref=SimpleNamespace(rollout=rollout))
        loop = adapter("verl").AgentLoop(
            trainer_config=SimpleNamespace(config=config), server_manager=SimpleNamespace(generate=generate),
            tokenizer=tokenizer, processor=None, dataset_cls=None, data_config=SimpleNamespace(config={}),
            hf_model_type="qwen2",
        )  # fmt: skip
        row = {
            "raw_prompt": played.row["prompt"],
            "extra_info": played.row | {"env_kwargs": json.dumps(played.row["env_kwargs"])},
        }
        return await loop.run({"temperature": 1.0}, **row)

    output = asyncio.run(play())
    extra = output.extra_fields
    assert output.reward_score == sum(extra["turn_scores"]) and not actions
    assert len(output.response_ids) == len(output.response_mask) == len(output.response_logprobs)
    assert [
        token for token, trained in zip(output.response_ids, output.response_mask, strict=True) if trained
    ] == sampled
    columns = {
        "prompt_ids": [output.prompt_ids],
        "completion_ids": [output.response_ids],
        "env_mask": [output.response_mask],
    }
    return Played(masked(tokenizer, columns, 0), extra["turn_scores"], extra["end"], extra["success"])


def expected(name: str, played: Script) -> Played:
    """Return what the environment itself says to a script, as far as a host sees it."""
    if name == "trl_tools":
        record = itself(as_calls(played))
        record.shown = [texts(messages) or trl.OVER for messages in record.shown]
    elif name in ("trl_turns", "verl"):
        played = as_sampled(played) if name == "trl_turns" else played
        record = itself(played)
        record.shown = _runs(played, record.shown, cuts=name == "trl_turns")
        if name == "trl_turns":
            record.rewards, record.success = [sum(record.rewards)], False  # what TRL does not carry
    elif name == "inspect_ai":
        record = itself(played)
        env = gym.make(played.row["env_id"], **played.row["env_kwargs"])
        turns = zip(played.actions, record.shown[1:], strict=True)
        history = record.shown[0] + [
            row for action, rows in turns for row in ({"role": "assistant", "content": action}, *rows)
        ]
        told = conversation(ChatRequest(history, env.unwrapped.tools))
        record.shown = [message.text for message in told]
    else:
        record = itself(played)
        if name == "verifiers":
            record.shown.pop()  # the run ends at the last turn
    return record


def _runs(played, shown, cuts):
    tokenizer, env = PlantedTokenizer(), gym.make(played.row["env_id"], **played.row["env_kwargs"])
    _, info = env.reset(seed=played.row["seed"], options={"task": played.row["task"], "split": played.row["split"]})
    template = lambda rows, tools=None: tokenizer.apply_chat_template(rows, tools, False, True)  # noqa: E731
    news = info["messages"] if cuts else shown[0]
    runs = [(0, template(news, info["tools"]) + (info["prefill"] if cuts else ""))]
    for place, action in enumerate(played.actions):
        ended = cuts and any(action.endswith(end) for end in info["stop"])
        runs.append((1, action + ("" if ended else tokenizer.eos_token)))
        info = env.step(action)[4]
        if place + 1 < len(played.actions):
            news = info["messages"] if cuts else shown[place + 1]
            closing = f"{tokenizer.eos_token if ended else ''}\n{template(news)}"
            runs.append((0, closing + (info["prefill"] if cuts else "")))
    return runs


HOSTS = {
    host.__name__: host for host in (session, skyrl, gem, openenv, verifiers, inspect_ai, trl_tools, trl_turns, verl)
}
