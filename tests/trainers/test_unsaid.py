"""Constant texts of prompts that no demonstration says are never sampled, and no logprob counts them."""

import copy

import pytest
import torch

from agent_envs.base.jsonl_log import read_journal
from agent_envs.core.trajectory import Trajectory
from tests.trainers.test_training_run import run
from trainers.batching import TrainRow, micro_batches
from trainers.command_line import read_settings
from trainers.contracts import Prefix, Sampling, TokenSequence
from trainers.engines.hf import HFEngine
from trainers.grpo import GRPOSettings
from trainers.run import open_run
from trainers.settings import ModelSettings
from trainers.tiny.fitting import environment_tokenizer
from trainers.tiny.models import ROLES
from trainers.training.forward import token_logprobs
from trainers.training.models import ReferenceModel, leave_out, load_model

UNSAID = [3, 11, 19]  # of 23


def row_of(ids, logprobs):
    trained = (False, *(True,) * (len(ids) - 1))
    sequence = TokenSequence(ids, trained, (0.0, *logprobs), tuple(map(int, trained)))
    return TrainRow(sequence, tuple(map(float, trained)))


def test_what_is_left_out_has_no_chance_anywhere_and_the_rest_all_of_it(tiny_model):
    model = tiny_model()
    with torch.no_grad():
        whole = model(torch.tensor([[1, 2]])).logits[0, -1].double()
    leave_out(model, UNSAID)
    engine = HFEngine(model, None, eos_ids=())
    (found,) = engine.generate([Prefix((1, 2), 100, seed=3)], Sampling(5.0))  # far from what the model would say
    assert not set(found.ids) & set(UNSAID) and len(set(found.ids)) > 10
    rest = [token for token in range(len(whole)) if token not in UNSAID]
    wanted = (whole[rest] / 5.0).log_softmax(-1)[rest.index(found.ids[0])]
    assert found.logprobs[0] == pytest.approx(float(wanted), abs=1e-4)
    (micro,) = micro_batches([row_of((1, 2, *found.ids[:60]), (0.0, *found.logprobs[:60]))], 4096, 0)
    for scorer in (model, copy.deepcopy(model)):
        logprobs, entropies = token_logprobs(scorer, micro, 5.0)
        assert torch.allclose(logprobs[0, 2:], micro.old_logprobs[0, 2:], atol=1e-4)
        assert entropies.isfinite().all() and float(entropies.max()) < torch.tensor(float(len(rest))).log() + 1e-5
    assert torch.allclose(ReferenceModel(model).scores(micro, 5.0).logprobs, logprobs, atol=1e-6)


def test_another_choice_takes_the_place_of_the_first(tiny_model):
    model = tiny_model()
    leave_out(model, ())
    assert not hasattr(model.get_output_embeddings(), "unsaid") and not hasattr(model.config, "unsaid_ids")
    for ids in (UNSAID, [5]):
        leave_out(model, ids)
    (found,) = HFEngine(model, None, eos_ids=()).generate([Prefix((1, 2), 100, seed=3)], Sampling(5.0))
    assert 5 not in found.ids and set(UNSAID) & set(found.ids)


def test_constant_texts_are_known_in_all_their_forms():
    chosen = environment_tokenizer("Order", plays=32)
    tokenizer = chosen.tokenizer
    assert set(ROLES) <= {tokenizer.decode([number]) for number in chosen.constant}
    for phrase in chosen.phrases:
        assert set(tokenizer.encode(phrase)) <= chosen.constant
    assert tokenizer.eos_token_id not in chosen.constant and len(chosen.constant) < len(tokenizer) / 2


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("unsaid") / "run"
    run(out, "--log.episodes", "--sampling.temperature", "2", steps=2)
    return out


def test_a_run_never_says_what_no_demonstration_said(whole):
    settings = read_settings(GRPOSettings, whole)
    with open_run(settings, whole) as again:
        unsaid, parts = set(again.memory["unsaid"]), again.parts
        assert unsaid and unsaid < parts.constant
        assert float(parts.bare.get_output_embeddings().unsaid.max()) == 0.0  # it is there after a resume, too
    rows = read_journal(whole / "episodes-0.jsonl")
    episodes = [Trajectory.from_json(row["trajectory"]) for row in rows]
    said = {token for episode in episodes for turn in episode.turns for token in turn.token_ids}
    assert len(episodes) == 32 and len(said) > 20 and not said & unsaid
    model, _ = load_model(ModelSettings(name=str(whole / "model")))
    assert sorted(unsaid) == model.config.unsaid_ids
    head = model.get_output_embeddings()
    assert set(torch.nonzero(head.unsaid).flatten().tolist()) == unsaid
    assert not [name for name, _ in model.named_parameters() if "unsaid" in name]
