"""tau2 is dual-control customer service: an agent and a simulated user both act on a database, in three domains.

It follows tau2-bench and equals the original benchmark on recorded behaviour.

Modules, in reading order:
    env: Tau2Retail, Tau2Airline and Tau2Telecom, the Gymnasium environments; read it first. page.md is their page.
    aec: the PettingZoo environment in which both sides are played.
    dialogue, turn_taking: the state of a conversation, and its state machine: whose turn it is, routing, limits, endings.
    actions, agent_view: the parser of turns (tool calls or words); a side's prompt (prompt.md) and observations.
    toolkit, shared_tools: domains, execution of tool calls, JSON schemas of tools; calculator and transfer.
    database, record_schema, state_diff: shared databases, an episode's changes, hashes; shapes of records; differences.
    retail, airline, telecom: the agent's tools of each domain, and telecom's synchronisation of company and phone.
    airline_rules: the airline policy's arithmetic: bags, refunds, compensation, cancellation.
    telecom_device, telecom_phone, telecom_faults, telecom_tables: the phone: user's tools, rules, faults, records.
    compat: switches for the original's bugs ("tau2-1.0.1" or "fixed").
    tasks, task_schema, official: task sources and splits, the typed task with its criteria, the official data files.
    builtin/, task_generator/: small databases with their policies, and generated tasks of every difficulty.
    task_states, evaluation: database states before, after and as expected; the official score, its components, the judge.
    scoring: the rewards by name with their terms and metrics; the fraction of state changes reached.
    metrics: labels and metrics of reports; the score of an agent that does nothing.
    scene, partners, users/, user_script: the simulated other side, partners by name, simulated users, their script.
    gold_agent, solver: the oracle policy, which knows the criteria, and the random policy.
    heuristics/, feedback: rule-based agents, and scripted feedback (hints) made of their rules.
    conversation_view: both sides of an episode for the HTML pages of finished runs.
"""

from typing import TYPE_CHECKING, Any

from agent_envs.core.registry import register_companions

if TYPE_CHECKING:
    from agent_envs.envs.tau2.aec import DualControl

register_companions(
    "agent_envs.envs.tau2.env:Tau2Env",
    solver="agent_envs.envs.tau2.solver:next_action",
    sampler="agent_envs.envs.tau2.solver:random_action",
    heuristic="agent_envs.envs.tau2.heuristics:act",
    labels="agent_envs.envs.tau2.metrics:labels",
    metrics="agent_envs.envs.tau2.metrics:metrics",
    out_of_reach="agent_envs.envs.tau2.metrics:out_of_reach",
    shows_gold="agent_envs.envs.tau2.metrics:shows_gold",
    conversation_view="agent_envs.envs.tau2.conversation_view:conversation_view",
    feedback="agent_envs.envs.tau2.feedback:give_feedback",
)


def dual_control(domain: str, **arguments: Any) -> "DualControl":
    """Return the PettingZoo environment of a domain, in which both sides are played.

    Args:
        domain: "retail", "airline" or "telecom".
        arguments: see `agent_envs.envs.tau2.aec.DualControl`.
    """
    from agent_envs.envs.tau2.aec import DualControl

    return DualControl(domain, **arguments)
