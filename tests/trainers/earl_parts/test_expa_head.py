"""The expanded head: one softmax over tokens and actions, rows that start as the language head's, and files."""

import json
import warnings

import pytest
import torch
from transformers import AutoModelForCausalLM

from agent_envs.base.errors import UsageError
from agent_envs.envs.expa import VocabularyRow
from tests.trainers.conftest import VOCABULARY as V
from trainers.earl_parts.expa_head import ExpandedHead, attach_head, load_head
from trainers.training.forward import LinearHead, head_of

EOS = 2
ROWS = (
    VocabularyRow(0, EOS, EOS, (EOS,)),
    VocabularyRow(1, V, 5, (5,)),
    VocabularyRow(2, V + 1, 7, (7, 9, 4)),
    VocabularyRow(3, V + 2, 11, (11,)),
)
LEGAL = ((0, 1, 2), (3,), (0,), (2, 3), (0, 1), (1, 2, 3), (0, 2))
TARGETS = (V + 1, V + 2, EOS, V + 2, 6, V, 22)


def inputs(model, seed=0):
    torch.manual_seed(seed)
    width = model.config.hidden_size
    return torch.randn(len(LEGAL), width, dtype=model.dtype, requires_grad=True), torch.tensor(TARGETS)


def brute_force(head, language, states, temperature):
    """Log-probabilities by position and id, spelled out: concatenate, mask by hand, one softmax a row."""
    logits = torch.cat([states @ language.weight.T, states @ head.weight.T], dim=1) / temperature
    mask = torch.zeros(len(LEGAL), V + 3, dtype=torch.bool)
    for place, legal in enumerate(LEGAL):
        if 0 in legal:
            mask[place, :V] = True
        for number in legal:
            if number:
                mask[place, V + number - 1] = True
    return logits.masked_fill(~mask, -torch.inf).log_softmax(-1), mask


def scored(head, language, states, targets, legal=LEGAL, temperature=1.0, with_entropy=True, entropy_grad=False):
    options = (temperature, with_entropy, entropy_grad)
    return head.score(states, LinearHead(language, *options), targets, head.table(legal))


def test_scores_are_those_of_one_softmax_over_tokens_and_actions(tiny_model):
    model = tiny_model(torch.float64)
    head, language = attach_head(model, ROWS), model.get_output_embeddings()
    for temperature in (1.0, 0.6):
        states, targets = inputs(model)
        found = scored(head, language, states, targets, temperature=temperature)
        wanted, mask = brute_force(head, language, states, temperature)
        assert torch.allclose(found.logprobs, wanted.gather(1, targets[:, None])[:, 0], atol=1e-12, rtol=0)
        entropies = -torch.where(mask, wanted.exp() * wanted, 0.0).sum(1)
        assert torch.allclose(found.entropies, entropies, atol=1e-12, rtol=0)
        logits = head.logits(states, language(states)) / temperature
        masked = logits.masked_fill(~mask, -torch.inf).log_softmax(-1)
        assert torch.allclose(masked[mask], wanted[mask], atol=1e-12, rtol=0)


def test_the_kl_is_over_the_vocabulary_alone_and_only_where_a_token_was_chosen(tiny_model):
    model = tiny_model(torch.float64)
    head, language = attach_head(model, ROWS), model.get_output_embeddings()
    states, targets = inputs(model)
    found = scored(head, language, states, targets)
    alone = (states @ language.weight.T).log_softmax(-1)
    expected = [float(alone[place, token].detach()) if token < V else 0.0 for place, token in enumerate(TARGETS)]
    assert found.vocabulary_logprobs.tolist() == pytest.approx(expected, abs=1e-12)
    assert sum(value != 0 for value in expected) == 3
    found.vocabulary_logprobs.sum().backward()
    assert head.weight.grad is None or not head.weight.grad.any(), "actions are no part of the KL"


def test_gradients_are_those_of_the_brute_force_softmax(tiny_model):
    model = tiny_model(torch.float64, tie_word_embeddings=False)
    head, language = attach_head(model, ROWS), model.get_output_embeddings()
    states, targets = inputs(model)
    weights = torch.linspace(-1, 1, len(TARGETS), dtype=torch.float64)
    leaves = (states, head.weight, language.weight)
    found = scored(head, language, states, targets, entropy_grad=True)
    ours = torch.autograd.grad((weights * (found.logprobs + found.entropies)).sum(), leaves)
    wanted, mask = brute_force(head, language, states, 1.0)
    spread = torch.where(mask, wanted, 0.0)
    entropies = -(torch.where(mask, wanted.exp(), 0.0) * spread).sum(1)
    chosen = spread.gather(1, targets[:, None])[:, 0]
    theirs = torch.autograd.grad((weights * (chosen + entropies)).sum(), leaves)
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-12, rtol=0)


def test_an_entropy_is_detached_unless_its_gradient_is_asked_for_and_left_out_on_demand(tiny_model):
    model = tiny_model()
    head, language = attach_head(model, ROWS), model.get_output_embeddings()
    states, targets = inputs(model)
    assert not scored(head, language, states, targets).entropies.requires_grad
    assert not scored(head, language, states, targets, with_entropy=False).entropies.any()


def test_inside_an_environment_no_token_is_open_and_in_language_all_are(tiny_model):
    model = tiny_model(torch.float64)
    head, language = attach_head(model, ROWS), model.get_output_embeddings()
    states, _ = inputs(model)
    for place, legal in enumerate(LEGAL):
        state, tokens = states[place : place + 1], torch.arange(V + 3)[:, None]
        every = [scored(head, language, state, token, [legal]).logprobs.item() for token in tokens]
        open_ = {token for token, logprob in enumerate(every) if logprob > -1e30}
        routes = {V + number - 1 for number in legal if number}
        assert open_ == (set(range(V)) | routes if 0 in legal else routes)
        assert sum(map(torch.tensor(every).exp().__getitem__, open_)) == pytest.approx(1)


def test_the_language_head_is_not_asked_inside_environments(tiny_model):
    model = tiny_model()
    head, asked = attach_head(model, ROWS), []
    model.get_output_embeddings().register_forward_hook(lambda module, args, output: asked.append(len(args[0])))
    states, targets = inputs(model)
    scored(head, model.get_output_embeddings(), states, targets)
    assert asked == [sum(0 in legal for legal in LEGAL)]


def test_a_row_starts_as_the_language_heads_row_of_its_first_token(tiny_model):
    model = tiny_model()
    language = model.get_output_embeddings().weight
    head = attach_head(model, ROWS)
    assert torch.equal(head.weight, language[[5, 7, 11]])
    again = attach_head(model, ROWS)
    assert model.expanded_head is again is head_of(model) is not head
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    with torch.no_grad():
        states = model.get_decoder()(input_ids=ids).last_hidden_state[0]
        plain = model(input_ids=ids).logits[0].softmax(-1)
        beside = head.logits(states, model.get_output_embeddings()(states)).softmax(-1)
    ratio = beside[:, :V].sum(-1)
    assert torch.allclose(beside[:, V], plain[:, 5] * ratio), "an action is as likely as the token that describes it"
    assert torch.allclose(beside[:, V], beside[:, 5]) and torch.allclose(beside[:, V + 2], beside[:, 11])


def test_the_base_may_be_frozen_or_trained(tiny_model):
    for frozen in (True, False):
        model = tiny_model().requires_grad_(not frozen)
        head = attach_head(model, ROWS)
        states = model.get_decoder()(input_ids=torch.tensor([list(range(len(LEGAL)))])).last_hidden_state[0]
        scored(head, model.get_output_embeddings(), states, torch.tensor(TARGETS)).logprobs.sum().backward()
        assert head.weight.grad.any()
        grads = [parameter.grad for name, parameter in model.named_parameters() if "expanded_head" not in name]
        assert all(grad is None for grad in grads) if frozen else any(grad is not None and grad.any() for grad in grads)
        assert "expanded_head.weight" in model.state_dict() and next(head.parameters()).requires_grad


@pytest.mark.filterwarnings("error")
def test_a_saved_base_loads_without_the_head_and_the_head_beside_it(tiny_model, tmp_path, capfd):
    model = tiny_model(tie_word_embeddings=False)
    head = attach_head(model, ROWS)
    with torch.no_grad():
        head.weight += 1
    model.save_pretrained(tmp_path)
    head_of(model).save(tmp_path)
    capfd.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded, told = AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(told[name] for name in ("unexpected_keys", "missing_keys", "mismatched_keys"))
    assert "UNEXPECTED" not in "".join(capfd.readouterr())
    assert head_of(loaded) is None
    again = load_head(loaded, tmp_path)
    assert head_of(loaded) is again and again.rows == ROWS and torch.equal(again.weight, head.weight)
    assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in model.state_dict().items())
    assert again.weight.requires_grad


def test_a_head_of_another_model_or_none_is_refused_in_one_line(tiny_model, tmp_path):
    model = tiny_model()
    assert head_of(model) is None
    with pytest.raises(UsageError, match="holds no expanded head"):
        load_head(model, tmp_path)
    attach_head(model, ROWS)
    head_of(model).save(tmp_path)
    with pytest.raises(UsageError, match="of another model, with 23 tokens"):
        load_head(tiny_model(vocab_size=24), tmp_path)
    with pytest.raises(UsageError, match="begin at id 24"):
        attach_head(tiny_model(vocab_size=24), ROWS)
    (tmp_path / "expanded_head.json").write_text(json.dumps({"rows": [[1, 2]]}))
    with pytest.raises(UsageError, match="holds no expanded head"):
        load_head(model, tmp_path)


def test_legal_actions_that_are_none_are_refused(tiny_model):
    head = attach_head(tiny_model(), ROWS)
    for legal in ((), (4,), (-1, 2)):
        with pytest.raises(UsageError, match="each from 0 to 3"):
            head.table([legal])
    with pytest.raises(UsageError, match="must follow one another"):
        ExpandedHead((ROWS[0], ROWS[2]), torch.zeros(1, 4))
    with pytest.raises(UsageError, match="3 expanded actions need as many rows"):
        ExpandedHead(ROWS, torch.zeros(2, 4))


def test_a_model_that_bends_its_logits_is_refused(tiny_model):
    model = tiny_model()
    model.lm_head.register_forward_hook(lambda module, args, output: output)
    attach_head(model, ROWS)
    model = tiny_model()  # what a model does is tried once
    forward = model.forward
    model.forward = lambda **given: bent(forward(**given))
    with pytest.raises(UsageError, match="does more than a linear layer"):
        attach_head(model, ROWS)


def bent(output):
    output.logits = 30 * torch.tanh(output.logits / 30)
    return output


def test_under_lora_the_head_trains_beside_the_adapter_and_both_are_saved(tiny_model, tmp_path):
    import peft

    config = peft.LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")
    torch.manual_seed(0)
    model = peft.get_peft_model(tiny_model().to(torch.bfloat16), config)
    head = attach_head(model, ROWS)
    assert head is head_of(model) is model.expanded_head and head.weight.dtype == torch.float32
    trainable = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert "expanded_head.weight" in trainable and all("lora" in name for name in trainable - {"expanded_head.weight"})
    states = model.get_decoder()(input_ids=torch.tensor([list(range(len(LEGAL)))])).last_hidden_state[0]
    found = scored(head, model.get_output_embeddings(), states, torch.tensor(TARGETS))
    assert found.logprobs.dtype == torch.float32
    found.logprobs.sum().backward()
    assert head.weight.grad.any()
    model.save_pretrained(tmp_path)
    head_of(model).save(tmp_path)
    fresh = peft.PeftModel.from_pretrained(tiny_model().to(torch.bfloat16), tmp_path)
    assert torch.equal(load_head(fresh, tmp_path).weight, head.weight)
    assert "expanded_head" not in "".join(fresh.merge_and_unload().state_dict())


def test_a_head_is_found_through_what_is_put_around_a_model(tiny_model):
    model = tiny_model()
    assert head_of(model) is None
    wrapped = torch.compile(model)
    head = attach_head(wrapped, ROWS)
    assert head_of(wrapped) is head_of(torch.nn.Sequential(wrapped)) is head_of(model) is head is model.expanded_head
