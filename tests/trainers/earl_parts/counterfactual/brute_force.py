"""Conversations of random tokens, and what a model says of tokens in passes of their own."""

import torch

from tests.trainers.conftest import VOCABULARY
from trainers.contracts import TokenSequence
from trainers.training.forward import head_of


def spoken(generator, turns=3):
    """Return a random conversation: shown tokens, then sampled ones, and so on."""
    ids, trained, number = [1], [False], [0]
    for turn in range(1, turns + 1):
        for kept in (False, True):
            count = generator.randint(1, 4)
            ids += [generator.randrange(VOCABULARY) for _ in range(count)]
            trained += [kept] * count
            number += [turn if kept else 0] * count
    logprobs = [-generator.random() if kept else 0.0 for kept in trained]
    return TokenSequence(tuple(ids), tuple(trained), tuple(logprobs), tuple(number))


def brute_force(model, ids, tokens, temperature=1.0):
    """Return the logprob of each token behind ids, by a forward pass of its own over exactly these tokens."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*ids, *tokens]])).logits[0] / temperature
    scores = logits.log_softmax(-1)
    return [float(scores[len(ids) + step - 1, token]) for step, token in enumerate(tokens)]


def policy_logprobs_of(model, ids, legal):
    """Return log pi over the vocabulary and the legal actions behind ids, from all logits beside one another."""
    head = head_of(model)
    with torch.no_grad():
        states = model.model(input_ids=torch.tensor([ids])).last_hidden_state[0, -1:]
        logits = torch.cat([model.lm_head(states)[0], (states @ head.weight.T)[0]])
    logits[[row.token_id for row in head.rows[1:] if row.action not in legal]] = -torch.inf
    return logits.log_softmax(-1)
