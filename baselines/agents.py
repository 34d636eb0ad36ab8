"""The agents by their short names: `--agent baseline:rag` is `baselines.agents:rag`, imported at use."""

from importlib import import_module
from typing import Any

from agent_envs.base.errors import UsageError

AGENTS = {
    "direct": "direct:Direct",
    "cot": "cot:ChainOfThought",
    "rag": "rag:RAG",
    "ircot": "ircot:IRCoT",
    "search_o1": "search_o1:SearchO1",
    "tool_agent": "tool_agent:ToolAgent",
    "tag_agent": "tag_agent:TagAgent",
    "prompted_tools": "prompted_tools:PromptedTools",
    "react": "react:ReAct",
    "deep_search": "deep_search:DeepSearch",
    "forced_answer": "forced_answer:ForcedAnswer",
    "program_of_thought": "program_of_thought:ProgramOfThought",
    "games": "games:GameAgent",
    "sorting": "sorting:SortingAgent",
    "validator": "validator:Validator",
    "self_consistency": "self_consistency:SelfConsistency",
}


def agent_class(name: str) -> type:
    """Import and return the agent class of a short name among AGENTS; UsageError for any other name.

    Raises:
        UsageError: there is no such agent.
    """
    if name not in AGENTS:
        raise UsageError(f"baseline:{name} is unknown; the baselines are {', '.join(AGENTS)}")
    module, _, attribute = AGENTS[name].partition(":")
    kind: type = getattr(import_module(f"baselines.{module}"), attribute)
    return kind


def __getattr__(name: str) -> Any:
    """Return the agent class of a name; AttributeError for a private name."""
    if name.startswith("_"):
        raise AttributeError(name)
    return agent_class(name)
