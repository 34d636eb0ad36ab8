"""`rollout` has TRL's GRPOTrainer play whole turns of text on an id of ours, stop strings and all."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.integrations.session import Session, TokenRecord

Ids = list[list[int]]
Generate = Callable[[Any, Ids], tuple[Ids, list[list[float]] | None]]


def rollout(rows: Sequence[Mapping[str, Any]], generate: Generate | None = None) -> Callable[..., dict[str, Any]]:
    """Return a `rollout_func`, whose reward function is `reward`, over the rows of the data set: TRL hands over prompts alone.

    `generate`: (trainer, prefixes in ids) -> (ids, log-probabilities or None); TRL's own generation if it is left out.
    """
    rows_by_prompt: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        rows_by_prompt.setdefault(_key(row["prompt"]), []).append(row)
    sessions: list[Session] = []

    def rollout_func(prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """Play an episode a prompt, equal ones by turns at rows; return tokens, logprobs, masks and rewards; UsageError."""
        sessions.extend(Session(prefills=True) for _ in range(len(prompts) - len(sessions)))
        counts, records = Counter[str](), []
        for session, prompt in zip(sessions, prompts, strict=False):
            if (key := _key(prompt)) not in rows_by_prompt:
                raise UsageError("rollout: a prompt is in none of the rows; give the rows of the data set itself")
            session.begin(rows_by_prompt[key][counts[key] % len(rows_by_prompt[key])])
            counts[key] += 1
            records.append(TokenRecord(trainer.processing_class, session))
        theirs = lambda trainer, prefixes: trainer._generate_single_turn(prefixes, None, {}, 1)  # noqa: E731
        scored = _play(records, trainer, generate or theirs)
        return {
            "prompt_ids": [record.prompt_ids for record in records],
            "completion_ids": [record.completion_ids for record in records],
            "logprobs": [record.logprobs for record in records] if scored else None,
            "env_mask": [record.mask for record in records],
            "env_reward": [sum(record.session.rewards) for record in records],
            "env_end": [record.session.end for record in records],
        }

    return rollout_func


def reward(env_reward: Sequence[float], **others: Any) -> list[float]:
    """Return the rewards of the episodes that `rollout` played."""
    return list(env_reward)


def _play(live: Sequence[TokenRecord], trainer: Any, generate: Generate) -> bool:
    """Play all episodes turn by turn, to their ends or TRL's budget of tokens; return whether logprobs were given."""
    scored, budget = False, trainer.max_completion_length
    while live:
        ids, logprobs = generate(trainer, [record.prompt_ids + record.completion_ids for record in live])
        going, scored = [], logprobs is not None
        for place, record in enumerate(live):
            room = budget - len(record.completion_ids)
            text = record.add_sampled(ids[place][:room], logprobs[place] if logprobs is not None else None)
            if len(record.completion_ids) >= budget and record.completion_ids[-1] != record.tokenizer.eos_token_id:
                continue  # the turn was cut: it is trained on, and was never said
            answer = record.session.act(text)
            answer_ids = [] if record.session.end else record.encode_answer(answer)
            if not record.session.end and len(record.completion_ids) + len(answer_ids) < budget:
                record.add(answer_ids)
                going.append(record)
        live = going
    return scored


def _key(prompt: Sequence[Mapping[str, Any]]) -> str:
    """Return the key of a prompt: roles and contents of its messages."""
    return json.dumps([[message["role"], message["content"]] for message in prompt])
