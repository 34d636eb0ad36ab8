"""Of verl 0.9.1: what the adapter touches."""

from abc import ABC, abstractmethod
from types import SimpleNamespace
from typing import Any

from pydantic import BaseModel


class AgentLoopMetrics(BaseModel):
    generate_sequences: float = 0.0
    tool_calls: float = 0.0


class AgentLoopOutput(BaseModel):
    prompt_ids: list[int]
    response_ids: list[int]
    response_mask: list[int]
    response_logprobs: list[float] | None = None
    reward_score: float | None = None
    num_turns: int = 0
    metrics: AgentLoopMetrics
    extra_fields: dict[str, Any] = {}


class AgentLoopBase(ABC):
    def __init__(
        self,
        trainer_config,
        server_manager,
        tokenizer,
        processor,
        dataset_cls,
        data_config,
        hf_model_type=None,
        **kwargs,
    ):
        self.rollout_config = trainer_config.config.actor_rollout_ref.rollout
        self.server_manager, self.tokenizer = server_manager, tokenizer

    async def ct_build_initial_tokens(self, messages, tools=None):
        return self.tokenizer.apply_chat_template(messages, tools=tools, add_generation_prompt=True)

    async def ct_merge_context_msg(
        self, previous_messages, updated_messages, runtime_token_ids, response_mask, response_logprobs=None, tools=None
    ):
        new = updated_messages[len(previous_messages) :]
        ids = self.tokenizer.encode("\n") + self.tokenizer.apply_chat_template(new, add_generation_prompt=True)
        return self._merged(runtime_token_ids, ids, response_mask, 0, response_logprobs, [0.0] * len(ids))

    async def ct_merge_assistant_token(
        self, runtime_token_ids, assistant_token_ids, response_mask, response_logprobs=None, assistant_logprobs=None
    ):
        ids = assistant_token_ids
        return self._merged(runtime_token_ids, ids, response_mask, 1, response_logprobs, assistant_logprobs)

    def _merged(self, before, ids, mask, sampled, scores, more):
        longer = None if scores is None else scores + more
        return SimpleNamespace(token_ids=before + ids), mask + [sampled] * len(ids), longer

    @abstractmethod
    async def run(self, sampling_params, **kwargs): ...


def register(agent_name): ...
