"""`TrainedAgent` plays a training run's policy in evaluations, as it is at the end or at the start; `ModelAgent` any model.

    python -m trainers.trained_agent runs/grpo

prints the command that plays it in the environment that it was trained in, as the end of every run does:

    agent-envs eval ID --arg NAME=VALUE --agent trainers.trained_agent:TrainedAgent --agent-arg folder=runs/grpo

An id alone is the environment with its own defaults. Where these, or other values of `--arg`, show a policy something else
than the run's environment did, the agent says so once on standard error, and plays.
"""

import inspect
import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from safetensors.torch import load_file

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import FEEDBACK_MARK
from agent_envs.base.serialization import plain_value
from agent_envs.core.env import core_of
from agent_envs.core.registry import full_id
from agent_envs.rollout.policy import Reply, Request
from agent_envs.services.chat.named import is_chat_name
from agent_envs.wrappers import Memory
from agent_envs.wrappers.feedback_prompts import EPSILON
from trainers.command_line import one_line_errors, settings_table
from trainers.contracts import Sampling
from trainers.engine_policy import EnginePolicy
from trainers.engines.decode import end_ids
from trainers.engines.hf import HFEngine
from trainers.environments import WrapperRow, members_of, wrapper_rows
from trainers.settings import EnvironmentSettings, ModelSettings
from trainers.tokens import ChatTokenizer
from trainers.training.checkpoints import WEIGHTS_FILE, Checkpoints
from trainers.training.forward import head_is_in
from trainers.training.models import load_model

NAME = "trainers.trained_agent:TrainedAgent"
FEEDBACK = "trainers.veg_parts"
REWARD_ARGUMENTS = ("reward", "judge", "weights", "retrieval_score", "equality")  # arguments that shape rewards alone


class ModelAgent(EnginePolicy):
    """Plays a model of transformers as it is, from its folder, the hub or pip: `agent-envs eval ID --agent hf:MODEL`.

    Without an option of evaluation a batch of its episodes is played at a time, in one process and with no server.
    """

    gives_reasons = True

    def __init__(
        self,
        model: str,
        *,
        name: str = "",
        template: str = "auto",
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        max_new_tokens: int = 512,
        max_context: int = 4096,
        batch: int = 16,
        start: Path | None = None,
    ) -> None:
        """Load the model; temperature 0 takes the likeliest token. `start` is a run, whose weights at its start are taken."""
        device = "cuda" if torch.cuda.is_available() else "cpu"
        if device == "cpu":
            torch.set_num_threads(1)
        network, tokenizer = load_model(ModelSettings(name=model), device)
        if start is not None:
            _take_start(network, start)
        chat = ChatTokenizer(tokenizer, template)
        ends = {*chat.end_ids, *end_ids(None, network, tokenizer)}
        super().__init__(
            HFEngine(network.eval(), tokenizer, batch=batch, eos_ids=ends),
            chat,
            Sampling(temperature, top_k, top_p),
            name=name or f"hf:{model}",
            max_new_tokens=max_new_tokens,
            max_context=min(max_context, getattr(network.config, "max_position_embeddings", max_context)),
            batch=batch,
        )


class TrainedAgent(ModelAgent):
    """Plays as the run measured itself: its temperature, its limits of tokens, its batch.

    Attributes:
        command: that plays it in the environment that it was trained in.
    """

    gives_reasons = False

    def __init__(self, folder: str, *, start: bool = False, temperature: float = -1.0) -> None:
        """Load the policy of a finished run from its folder, with its last weights or those of its start.

        Args:
            folder: of a finished run.
            start: take the weights that reinforcement began with (after any warm start) in place of its last.
            temperature: of its tokens; 0 for the likeliest, negative for that of the run's evaluations.

        Raises:
            UsageError: there is no finished run, its weights are not kept, or it has expanded actions.
        """
        place = Path(folder)
        if not (place / "model").is_dir():
            raise UsageError(f"{folder} holds no finished run: there is no {place / 'model'}")
        if head_is_in(place / "model"):
            raise UsageError(f"{folder}: a model with expanded actions does not play by text")
        settings = settings_table(place)
        self.command, self._env, self._warned = evaluation_command(settings, place), settings["env"], False
        self._memory = _memory(settings)
        sampling = settings["sampling"]
        base = start and settings["model"]["lora_rank"] > 0  # an adapter starts as no change of its base
        super().__init__(
            settings["model"]["name"] if base else str(place / "model"),
            name=f"{place.name}{' at its start' if start else ''}",
            template=sampling["template"] if base else "auto",
            temperature=temperature if temperature >= 0 else sampling["eval_temperature"],
            start=place if start and not base else None,
            top_p=sampling["eval_top_p"],
            **{name: sampling[name] for name in ("max_new_tokens", "max_context", "batch")},
        )

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return the next turn of each episode; the policy is shown what its run's `Memory` would keep."""
        return super().act([with_memory(request, self._memory) if self._memory else request for request in requests])

    def warn_if_environment_differs(self, env: gym.Env[Any, Any]) -> None:
        """Print a note on standard error, once, if the environment's arguments differ from those of training."""
        if self._warned or not (diff := differences(self._env, env)):
            return
        self._warned = True
        print(f"note: {self.name} was trained in another environment: {diff}; its own: {self.command}", file=sys.stderr)


def with_memory(request: Request, memory: Memory) -> Request:
    """Return a request as it would be with such a `Memory` around the environment; as it is where there is one."""
    if request.context == "replace":
        return request
    rows = [{"role": row["role"], "content": row["content"]} for row in request.messages]
    replies = [place for place, row in enumerate(rows) if row["role"] == "assistant"]
    own = replies[len(replies) - request.turn + 1 :]  # what the prompt may show comes before
    news = (place for place, row in enumerate(rows) if row["content"].startswith(FEEDBACK_MARK))
    first = min([*own, len(rows), *news]) if memory.standing is None else memory.standing
    start = own[-memory.turns - 1] + 1 if len(own) > memory.turns else first
    return replace(request, messages=rows[:first] + rows[start:], context="replace")


def differences(settings: Mapping[str, Any], env: gym.Env[Any, Any]) -> str:
    """Return in words how an environment differs from that of a run's settings; "" where a policy is shown the same.

    An environment of the run's tests is no other one. Wrappers do not count: other turn limits, and feedback where there was
    none, are asked for by name.

    Args:
        settings: the part `env` of a run's settings.
        env: that is played.
    """
    core = core_of(env)
    environments = {full_id(member.name): asdict(member.env) for member in members_of(EnvironmentSettings(**settings))}
    if core.env_id not in environments:
        names = " and ".join(row["id"] for row in environments.values())
        return f"{names}, not {core.env_id.rpartition('/')[2]}"
    settings = environments[core.env_id]
    parameters = inspect.signature(type(core).__init__).parameters
    defaults = {name: parameters[name].default for name in core.arguments if name in parameters}
    trained, here = {**defaults, **json.loads(settings["arguments"])}, plain_value(core.arguments)
    changes = []
    for other in _test_arguments(settings):
        there = plain_value({**trained, **other})
        names = [
            name for name in {**there, **here} if name not in REWARD_ARGUMENTS and there.get(name) != here.get(name)
        ]
        changes.append([f"{name}={_text(there.get(name)):.60}, not {_text(here.get(name)):.60}" for name in names])
    return "; ".join(changes[0]) if all(changes) else ""


def _test_arguments(settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the arguments that differ from those of training: {} first, then those of `test_arguments` and of each test."""
    yield {}
    for other in (json.loads(settings["test_arguments"]), *json.loads(settings["tests"]).values()):
        yield {name: value for name, value in other.items() if name not in ("split", "wrappers")}


def how_to_evaluate(settings: Any, folder: Path) -> str:
    """Return lines that tell a run's evaluation command; "" where the model has expanded actions, which play by no text."""
    if head_is_in(folder / "model"):
        return ""
    return "\n".join(f"evaluate it: {line}" for line in evaluation_command(asdict(settings), folder).splitlines())


def evaluation_command(settings: Mapping[str, Any], folder: Path) -> str:
    """Return the command that plays a run's policy where the run was tested, in its wrappers as far as they are options of it.

    A run on several environments has a line for each.

    Args:
        settings: of the run, as its folder keeps them.
        folder: of the run.
    """
    members = members_of(EnvironmentSettings(**settings["env"]))
    return "\n".join(_command({**settings, "env": asdict(member.env)}, folder) for member in members)


def _command(settings: Mapping[str, Any], folder: Path) -> str:
    """Compose the `agent-envs eval` command that plays a run's policy in its test environment, and comment what it omits."""
    env = settings["env"]
    arguments = {**json.loads(env["arguments"]), **json.loads(env["test_arguments"])}
    around, rest = _options(settings, arguments)
    words = ["agent-envs", "eval", env["id"]]
    words += [word for name, value in arguments.items() for word in ("--arg", f"{name}={_text(value)}")]
    words += ["--split", env["test_split"], *around, "--concurrency", str(settings["sampling"]["batch"])]
    words += ["--agent", NAME, "--agent-arg", f"folder={_text(str(folder))}"]
    return shlex.join(words) + (f"  # without {', '.join(rest)}" if rest else "")


def _options(settings: Mapping[str, Any], arguments: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return a run's wrappers as options of evaluation, and in words those that are none."""
    words, rest = list[str](), list[str]()
    for name, kwargs in _wrappers(settings):
        if name == "VerbalFeedback" and "--feedback" not in words:
            words += ["--feedback", f"none,{kwargs['feedback']}", "--epsilon", str(kwargs.get("epsilon", EPSILON))]
            for key, value in (kwargs.get("options") or {}).items():
                words += ["--feedback-arg", f"{key}={_text(value)}"]
            rest += ["its own templates (--feedback-templates)"] if kwargs.get("templates") else []
            if is_chat_name(kwargs["feedback"]):
                words += ["--prices", kwargs["prices"]] if kwargs.get("prices") else []
                rest.append(f"a limit (--max-cost USD), and {kwargs['feedback']} is asked at every turn")
        elif name in ("ForcedAnswer", "TurnLimit") and "--turn-limits" not in words:
            # The option forces an answer wherever one can be forced, and limits turns elsewhere.
            forces = bool(core_of(gym.make(full_id(settings["env"]["id"]), **arguments)).answer_tags[0])
            if forces == (name == "ForcedAnswer"):
                words += ["--turn-limits", str(kwargs["free_turns" if forces else "turns"])]
            else:
                rest.append(name)
        elif not _keeps_turns(name, kwargs):  # such a memory the agent brings along
            rest.append(name)
    return words, rest


def _wrappers(settings: Mapping[str, Any]) -> list[WrapperRow]:
    """Return the wrappers of a run's environment where it is tested; for VEG with the feedback that tests have."""
    rows = wrapper_rows(settings["env"]["wrappers"], "env.wrappers")
    if "feedback" not in settings:
        return rows
    kind: type = import_module(FEEDBACK).FeedbackSettings  # VEG's own: no other trainer's run has them
    feedback: Any = kind(**{row.name: settings[row.name] for row in fields(kind) if row.name in settings})
    return [*(row for row in rows if row[0] != "VerbalFeedback"), *feedback.wrapper(feedback.tester).items()]


def _memory(settings: Mapping[str, Any]) -> Memory | None:
    """Return the `Memory` of a run that keeps whole turns; None where it has none."""
    env = gym.make(full_id(settings["env"]["id"]), **json.loads(settings["env"]["arguments"]))
    return next((Memory(env, **kwargs) for name, kwargs in _wrappers(settings) if _keeps_turns(name, kwargs)), None)


def _keeps_turns(name: str, kwargs: Mapping[str, Any]) -> bool:
    """Return whether a wrapper is a memory of whole turns."""
    return name == "Memory" and kwargs.get("keep", "turns") == "turns"


def _text(value: Any) -> str:
    """Return a value as `--arg NAME=VALUE` reads it: JSON, or a text that is none."""
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return value
    return json.dumps(value)


def _take_start(model: Any, folder: Path) -> None:
    """Give a model the weights that a run began with; UsageError where there are none, or of another model."""
    start = Checkpoints(folder / "checkpoints" / "start").best()
    if start is None:
        raise UsageError(f"{folder} has no weights of its start")
    odd = model.load_state_dict(load_file(start.path / WEIGHTS_FILE), strict=False).unexpected_keys
    if odd:
        raise UsageError(f"{start.path} is of another model: {odd[0]}")


def main() -> None:
    """Run the command line: print the evaluation command of the one run folder named; exit with 2 for an error."""
    with one_line_errors("trained_agent"):
        if len(sys.argv) != 2:
            raise UsageError("name the folder of a run, and nothing else")
        folder = Path(sys.argv[1])
        print(evaluation_command(settings_table(folder), folder))


if __name__ == "__main__":
    main()
