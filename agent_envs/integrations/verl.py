"""verl runs episodes of ids of ours as an agent loop; its workers find `AgentLoop` by the name in a configuration.

A file for `actor_rollout_ref.rollout.agent.agent_loop_config_path`, which rows with `agent_name: agent_envs` name:

    - name: agent_envs
      _target_: agent_envs.integrations.verl.AgentLoop
"""

from typing import Any
from uuid import uuid4

from agent_envs.integrations.session import Session
from agent_envs.integrations.upstream import built_later, needs


class _AgentLoop:
    """The episode that a row, or its `extra_info`, names; verl's own functions keep the tokens. A fault stops the step."""

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> Any:
        """Play an episode turn by turn over verl's server until it ends or the response is full; return verl's output."""
        loop: Any = self  # verl's class gives what is used of it
        session, name = Session(), uuid4().hex
        await session.begin_async({**row, **(row.get("extra_info") or {})})
        tools, room = session.tools or None, loop.rollout_config.response_length
        sampling = {**sampling_params, "stop": session.info["stop"] or None}
        ids, mask, scores = await loop.ct_build_initial_tokens(session.history, tools=tools), list[int](), list[float]()
        while True:
            sampled = await loop.server_manager.generate(request_id=name, prompt_ids=ids, sampling_params=sampling)
            logprobs = sampled.log_probs or None
            turn = (ids, sampled.token_ids, mask, scores if logprobs else None)
            merged, mask, scores = await loop.ct_merge_assistant_token(*turn, assistant_logprobs=logprobs)
            ids = merged.token_ids
            if len(mask) >= room:
                break  # the turn was cut: it is trained on, and was never said
            answer = await session.act_async(loop.tokenizer.decode(sampled.token_ids, skip_special_tokens=True))
            if session.end:
                break
            before = session.history[: len(session.history) - len(answer)]
            news = (before, session.history, ids, mask, scores or None)
            merged, longer, new_scores = await loop.ct_merge_context_msg(*news, tools=tools)
            if len(longer) >= room:
                break
            ids, mask, scores = merged.token_ids, longer, new_scores or []
        return _output(session, ids, mask, scores or [], room)


def _output(session: Session, ids: list[int], mask: list[int], scores: list[float], room: int) -> Any:
    """Build verl's output: prompt and response tokens up to the room, mask, logprobs and the summed reward."""
    from verl.experimental.agent_loop.agent_loop import AgentLoopOutput

    prompt_length = len(ids) - len(mask)
    extra = {"turn_scores": session.rewards, "tool_rewards": [], "success": session.success, "end": session.end}
    return AgentLoopOutput(
        prompt_ids=ids[:prompt_length], response_ids=ids[prompt_length:][:room], response_mask=mask[:room],
        response_logprobs=scores[:room] or None, reward_score=sum(session.rewards), num_turns=len(session.history),
        metrics={}, extra_fields=extra,
    )  # fmt: skip


def _classes() -> tuple[type, ...]:
    """Return the class for verl; MissingExtra where verl is not installed."""
    with needs("verl", "verl"):
        from verl.experimental.agent_loop.agent_loop import AgentLoopBase
    return (type("AgentLoop", (_AgentLoop, AgentLoopBase), {}),)


__getattr__ = built_later(__name__, _classes)
