"""Positions of an episode's tokens are weighed by how likely a routing action, or a text, is at each.

A routing action is described by a text. A language model says how well that text fits at a position, before any training
(arXiv 2510.07581, section 2, step 2 of the counterfactual). A text of several tokens is scored at all positions in one pass:
its tokens stand behind the sequence once for each position, and each such branch sees only what comes before its position.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from agent_envs.base.errors import UsageError
from trainers.batching import in_groups
from trainers.contracts import TokenSequence
from trainers.engines.kv_cache import evaluating
from trainers.engines.prefill import additive
from trainers.training.forward import LinearHead, bare_model, extra_head

Rule = Literal["off", "paper", "released"]
TOKENS_A_PASS = 16_384
_MASK_A_PASS = 2**26  # entries of attention masks: 256 MB in float32
_MASK_ATTENTION = ("sdpa", "eager")


@dataclass(frozen=True, slots=True)
class Positions:
    """The positions at which a sequence could be changed, with their scores; one entry a position in each tuple.

    Attributes:
        places: the index of the token that it would stand before.
        log_weights: how well it fits there, as logarithms, before any position temperature.
        logprobs: of what would be inserted, under the policy: of a routing action (one number), or of a text's tokens.
    """

    places: tuple[int, ...] = ()
    log_weights: tuple[float, ...] = ()
    logprobs: tuple[tuple[float, ...], ...] = ()


def language_places(sequence: TokenSequence, action: int, rule: Rule, vocabulary: int) -> tuple[int, ...]:
    """Return positions in language where an action is legal: all (`paper`), or before words, else the first (`released`).

    `paper`: every position in language mode at which it is legal, whatever the policy chose there. `released`: of those,
    the ones before a vocabulary token (the end-of-sequence token is one); where there are none, the first decision.

    Args:
        sequence: of an episode with expanded actions.
        action: the number of the routing action.
        rule: `paper` or `released`.
        vocabulary: the width of the language head: targets from there on are expanded actions.
    """
    places = tuple(place for place, legal in enumerate(sequence.legal) if 0 in legal and action in legal)
    if rule == "paper":
        return places
    targets = sequence.targets or sequence.ids
    first = next((place for place, legal in enumerate(sequence.legal) if legal), -1)
    return tuple(place for place in places if targets[place] < vocabulary) or tuple({first} & set(places))


def position_logweights(
    model: torch.nn.Module,
    sequences: Sequence[TokenSequence],
    action: int,
    rule: Rule = "paper",
    temperature: float = 1.0,
) -> list[Positions]:
    """Return each sequence's places for an action, scored by its description (`paper`) or its best single id (`released`).

    `paper`: the log-probability of all tokens of its description, in order, under the softmax over the vocabulary alone.
    `released`: the higher one of the log-probabilities of the action and of its description's first token, both under the
    policy of language mode, which chooses among the vocabulary and the routing actions that are legal.

    Args:
        model: with an expanded head; sequences are run through it in padded batches.
        sequences: of episodes with expanded actions.
        action: the number of the routing action.
        rule: `paper` or `released`; see also `language_places`.
        temperature: that the policy samples at: all probabilities are of it.

    Raises:
        UsageError: the model has no expanded head, or its attention takes no mask of ours.
    """
    bare, head = bare_model(model), extra_head(model)
    linear, row = bare.get_output_embeddings(), head.rows[action]
    sites = [language_places(sequence, action, rule, head.vocabulary) for sequence in sequences]
    tokens = row.description if rule == "paper" else row.description[:1]
    positions = [Positions()] * len(sequences)
    with torch.no_grad(), evaluating(model):
        for members, states in _passes(bare, sequences, sites, tokens):
            legal = head.table([sequences[index].legal[place] for index in members for place in sites[index]])
            policy = LinearHead(linear, temperature)
            policy.extra = head
            logprobs = _policy_logprobs(policy, states[:, 0], legal, row.token_id)  # (places,)
            if rule == "paper":
                weights = _language_logprobs(linear, states, tokens, temperature).sum(1)
            else:
                weights = torch.maximum(logprobs, _policy_logprobs(policy, states[:, 0], legal, row.start))
            _share(positions, members, sites, weights, logprobs.unsqueeze(1))
    return positions


def free_places(
    sequence: TokenSequence, decode: Callable[[Sequence[int]], str], tags: Sequence[str]
) -> tuple[int, ...]:
    """Return the places of sampled tokens before which no call stands open: what is forced in one would be a part of it.

    A call is open from the first sign of its opening tag to the last of its closing one.

    Args:
        sequence: of an episode in text.
        decode: turns tokens into text.
        tags: names of what opens a call, `calculator` for `<calculator>`.
    """
    places: list[int] = []
    turn, own = -1, list[int]()
    for place, sampled in enumerate(sequence.trained):
        if not sampled:
            continue
        if sequence.turns[place] != turn:
            turn, own = sequence.turns[place], []
        if not _in_call(decode(own) if own else "", tags):
            places.append(place)
        own.append(sequence.ids[place])
    return tuple(places)


def _in_call(text: str, tags: Sequence[str]) -> bool:
    """Return whether a text ends within a call, or within the tag that opens one."""
    for tag in tags:
        opening, closing = f"<{tag}>", f"</{tag}>"
        if text.rfind(opening) > text.rfind(closing):
            return True
        if any(text.endswith(opening[:length]) for length in range(1, len(opening))):
            return True
    return False


def text_logweights(
    model: torch.nn.Module,
    sequences: Sequence[TokenSequence],
    tokens: Sequence[int],
    rule: Rule = "paper",
    temperature: float = 1.0,
    places: Sequence[tuple[int, ...]] | None = None,
) -> list[Positions]:
    """Return each sequence's places for a text in the policy's words, scored by all (`paper`) or one token (`released`).

    `paper`: the log-probability of all tokens of the text, in order;
    `released`: of its first token.

    Args:
        model: sequences are run through it in padded batches.
        sequences: of episodes in text.
        tokens: of the inserted text.
        rule: `paper` or `released`.
        temperature: that the policy samples at: all probabilities are of it.
        places: of each sequence that are asked about; None for all sampled tokens.

    Raises:
        UsageError: the text has no token, or the model's attention takes no mask of ours.
    """
    if not tokens:
        raise UsageError("text_logweights: the inserted text has no token")
    bare = bare_model(model)
    every = [tuple(place for place, trained in enumerate(sequence.trained) if trained) for sequence in sequences]
    sites = every if places is None else places
    positions = [Positions()] * len(sequences)
    with torch.no_grad(), evaluating(model):
        for members, states in _passes(bare, sequences, sites, tokens):
            logprobs = _language_logprobs(bare.get_output_embeddings(), states, tokens, temperature)  # (places, tokens)
            _share(positions, members, sites, logprobs.sum(1) if rule == "paper" else logprobs[:, 0], logprobs)
    return positions


def _share(
    positions: list[Positions],
    members: Sequence[int],
    sites: Sequence[tuple[int, ...]],
    weights: torch.Tensor,
    logprobs: torch.Tensor,
) -> None:
    """Write the scores of a pass into `positions`, each row's at its own index."""
    start, every, each = 0, weights.tolist(), logprobs.tolist()
    for index in members:
        stop = start + len(sites[index])
        positions[index] = Positions(sites[index], tuple(every[start:stop]), tuple(map(tuple, each[start:stop])))
        start = stop


def _language_logprobs(linear: Any, states: torch.Tensor, tokens: Sequence[int], temperature: float) -> torch.Tensor:
    """Return log-probabilities over the vocabulary alone, (places, tokens), from states (places, tokens, width)."""
    targets = torch.tensor(tokens, device=states.device).expand(states.shape[:2]).reshape(-1)  # (places * tokens,)
    nothing = torch.zeros(len(targets), 0, dtype=torch.bool, device=states.device)
    logprobs, *_ = LinearHead(linear, temperature).in_chunks(states.flatten(0, 1), targets, nothing)
    return logprobs.view(states.shape[:2])


def _policy_logprobs(policy: LinearHead, states: torch.Tensor, legal: torch.Tensor, target: int) -> torch.Tensor:
    """Return the policy's log-probability of an id in language mode, (places,), from states (places, width)."""
    targets = torch.full((len(states),), target, device=states.device)
    return policy.in_chunks(states, targets, legal)[0]


def _passes(
    bare: Any, sequences: Sequence[TokenSequence], sites: Sequence[tuple[int, ...]], tokens: Sequence[int]
) -> Iterator[tuple[list[int], torch.Tensor]]:
    """Yield each pass's row numbers, longest rows first, and states at all inserted tokens; rows without a place are out.

    States are (places, tokens, width). Rows without a place are left out; what follows a row's last place is cut off.
    """
    if len(tokens) > 1 and bare.config._attn_implementation not in _MASK_ATTENTION:
        raise UsageError('a description of several tokens needs model.attention "sdpa" or "eager", which take a mask')
    lengths = {index: max(places) + len(places) * (len(tokens) - 1) for index, places in enumerate(sites) if places}

    def fits(group: list[int], index: int) -> bool:
        """Return whether a pass has room for one more row, and for its mask where it takes one."""
        widest, count = lengths[group[0]], len(group) + 1
        return widest * count <= TOKENS_A_PASS and (len(tokens) == 1 or widest**2 * count <= _MASK_A_PASS)

    for group in in_groups(sorted(lengths, key=lambda index: -lengths[index]), fits):
        yield group, _states(bare, [sequences[row].ids for row in group], [sites[row] for row in group], tokens)


def _states(
    bare: Any, contexts: Sequence[tuple[int, ...]], sites: Sequence[tuple[int, ...]], tokens: Sequence[int]
) -> torch.Tensor:
    """Run contexts, and behind each the inserted text's beginning once a place; return states (places, tokens, width)."""
    branch = len(tokens) - 1
    lengths = [max(places) for places in sites]
    width = max(length + len(places) * branch for length, places in zip(lengths, sites, strict=True))
    ids = torch.zeros(len(sites), width, dtype=torch.long)
    positions = torch.zeros(len(sites), width, dtype=torch.long)
    cells: list[tuple[int, int]] = []
    for row, (context, length, places) in enumerate(zip(contexts, lengths, sites, strict=True)):
        ids[row, :length] = torch.tensor(context[:length])
        positions[row, :length] = torch.arange(length)
        for number, place in enumerate(places):
            start = length + number * branch
            ids[row, start : start + branch] = torch.tensor(tokens[:branch])
            positions[row, start : start + branch] = torch.arange(place, place + branch)
            cells += [(row, place - 1), *((row, start + step) for step in range(branch))]
    mask = additive(_attention_mask(lengths, sites, branch, width).to(bare.device), bare.dtype) if branch else None
    # Without branches all is as in training: tokens in a row, padding behind them, and the model's own causal mask.
    position_ids = positions.to(bare.device) if branch else None
    output = bare.get_decoder()(
        input_ids=ids.to(bare.device), position_ids=position_ids, attention_mask=mask, use_cache=False
    )
    hidden: torch.Tensor = output.last_hidden_state  # (rows, width, hidden)
    rows, columns = torch.tensor(cells, device=hidden.device).unbind(1)
    return hidden[rows, columns].view(-1, len(tokens), hidden.shape[-1])


def _attention_mask(lengths: Sequence[int], sites: Sequence[tuple[int, ...]], branch: int, width: int) -> torch.Tensor:
    """Return the bool mask (rows, 1, width, width): branches see their context and themselves, padding itself alone."""
    mask = torch.eye(width, dtype=torch.bool).repeat(len(sites), 1, 1)
    causal = torch.ones(width, width, dtype=torch.bool).tril()
    for row, (length, places) in enumerate(zip(lengths, sites, strict=True)):
        mask[row, :length, :length] = causal[:length, :length]
        for number, place in enumerate(places):
            own = slice(length + number * branch, length + (number + 1) * branch)
            mask[row, own, :place] = True
            mask[row, own, own] = causal[:branch, :branch]
    return mask.unsqueeze(1)
