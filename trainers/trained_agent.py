"""The agent of a training run, for the command line of evaluation: with its weights at the end, or as training found them.

agent-envs eval LegalSearch --turn-limits 0,1,2,4,8,10 --agent trainers.trained_agent:TrainedAgent --agent-arg folder=runs/grpo
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from agent_envs.errors import UsageError
from trainers.command_line import SETTINGS_FILE
from trainers.contracts import Sampling
from trainers.engine_policy import EnginePolicy
from trainers.engines import HFEngine
from trainers.engines.stops import end_ids
from trainers.expa_head import head_is_in
from trainers.settings import ModelSettings
from trainers.tokens import ChatTokenizer
from trainers.training.checkpoints import WEIGHTS_FILE, Checkpoints
from trainers.training.models import load_model


class TrainedAgent(EnginePolicy):
    """Plays as the run measured itself: its temperature, its limits of tokens, its batch."""

    def __init__(self, folder: str, *, start: bool = False, temperature: float = -1.0) -> None:
        """Load the run of a folder.

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
        settings: dict[str, Any] = json.loads((place / SETTINGS_FILE).read_text(encoding="utf-8"))
        drawn = settings["sampling"]
        device = "cuda" if torch.cuda.is_available() else "cpu"
        if device == "cpu":
            torch.set_num_threads(1)
        base = start and settings["model"]["lora_rank"] > 0  # an adapter starts as no change of its base
        name = settings["model"]["name"] if base else str(place / "model")
        model, tokenizer = load_model(ModelSettings(name=name), device)
        if start and not base:
            _take_start(model, place)
        chat = ChatTokenizer(tokenizer, drawn["template"] if base else "auto")
        ends = {*chat.end_ids, *end_ids(None, model, tokenizer)}
        super().__init__(
            HFEngine(model.eval(), tokenizer, batch=drawn["batch"], eos_ids=ends),
            chat,
            Sampling(
                temperature if temperature >= 0 else drawn["eval_temperature"], drawn["eval_top_k"], drawn["eval_top_p"]
            ),
            name=f"{place.name}{' at its start' if start else ''}",
            max_new_tokens=drawn["max_new_tokens"],
            max_context=min(
                drawn["max_context"], getattr(model.config, "max_position_embeddings", drawn["max_context"])
            ),
            batch=drawn["batch"],
        )


def _take_start(model: Any, folder: Path) -> None:
    """Give a model the weights that a run began with."""
    start = Checkpoints(folder / "checkpoints" / "start").best()
    if start is None:
        raise UsageError(f"{folder} has no weights of its start")
    odd = model.load_state_dict(load_file(start.path / WEIGHTS_FILE), strict=False).unexpected_keys
    if odd:
        raise UsageError(f"{start.path} is of another model: {odd[0]}")
