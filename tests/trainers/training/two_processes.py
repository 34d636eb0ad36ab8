"""Used by test_optimise: three updates on seven rows, shared by as many processes as there are."""

import sys

import torch

from tests.trainers.conftest import make_model, make_rows
from trainers.batching import micro_batches
from trainers.settings import ModelSettings, OptimSettings
from trainers.training.forward import token_logprobs
from trainers.training.models import make_accelerator
from trainers.training.optimise import Optimiser, Processes, same_weights


def train(accelerator, lora: bool) -> dict:
    rank = accelerator.process_index
    model = make_model(torch.float64, seed=rank)
    if lora:
        from peft import LoraConfig, get_peft_model

        config = LoraConfig(r=2, target_modules=["q_proj", "up_proj"], init_lora_weights=False)
        model = get_peft_model(model, config)
    same_weights(model, accelerator)
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    initial = {name: parameter.detach().clone() for name, parameter in trained.items()}
    rows = make_rows(7, seed=3)
    shares = [list(range(7))] if accelerator.num_processes == 1 else [[0, 1, 2, 3, 4, 5], [6]]
    optimiser = Optimiser(model, OptimSettings(learning_rate=1e-2, weight_decay=0.1), 3)
    losses, norms = [], []
    for _ in range(3):
        mine = [rows[index] for index in shares[rank]]
        tokens = float(sum(sum(row.sequence.trained) for row in mine))
        (denominator,) = Processes(accelerator).sums([tokens])
        loss = torch.zeros((), dtype=torch.float64)
        for micro in micro_batches(mine, 30, 0):
            logprobs, _ = token_logprobs(model, micro)
            part = -(logprobs * micro.advantages).sum() / denominator
            part.backward()
            loss += part.detach()
        losses += Processes(accelerator).sums([loss.item()])
        norms.append(optimiser.step(accelerator))
    weights = {name: parameter.detach() for name, parameter in trained.items()}
    found = {"losses": losses, "norms": norms, "weights": weights, "initial": initial, "shares": shares}
    return {**found, "processes": accelerator.num_processes}


def main(out: str) -> None:
    accelerator = make_accelerator(ModelSettings(dtype="float32"))
    found = {name: train(accelerator, lora) for name, lora in (("all weights", False), ("lora", True))}
    if accelerator.process_index == accelerator.num_processes - 1:
        torch.save(found, out)
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
