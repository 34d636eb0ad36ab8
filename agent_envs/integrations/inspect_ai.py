"""Inspect evaluates models on ids of ours: `task("SearchQA")` is a task, of which `play` is the solver, `earned` the scorer."""

import json
from typing import Any

from agent_envs.integrations.session import Row, Session, task_rows
from agent_envs.integrations.upstream import needs
from agent_envs.services.chat import ChatRequest
from agent_envs.services.chat.conversation import ChatTurn, conversation


def task(env_id: str, n: int = 100, split: str = "test", seed: int = 0, **arguments: Any) -> Any:
    """Return a task over the rows of `task_rows`. A fault of an outside service is an error of its sample, and no score."""
    with needs("inspect-ai", "inspect"):
        from inspect_ai import Task
        from inspect_ai.dataset import Sample
    rows = task_rows(env_id, n, split, seed, **arguments)
    samples = [Sample(row["prompt"][-1]["content"], id=row["task_id"], metadata=row) for row in rows]
    return Task(dataset=samples, solver=play(), scorer=earned(), name=env_id.rpartition("/")[2])


def play() -> Any:
    """Return the solver that plays a sample's episode with the model that is evaluated."""
    with needs("inspect-ai", "inspect"):
        from inspect_ai.model import GenerateConfig, get_model
        from inspect_ai.solver import solver
        from inspect_ai.tool import ToolInfo

    async def solve(state: Any, generate: Any) -> Any:
        """Play the session of a sample with Inspect's model, and store rewards and end for the scorer after each turn."""
        session = Session()

        def keep() -> None:  # what the scorer reads, after every turn: a limit of Inspect's may end a sample at any
            """Store rewards, end and success of the episode so far for the scorer."""
            state.store.set("agent_envs", {"rewards": session.rewards, "end": session.end, "success": session.success})

        await session.begin_async(state.metadata)
        keep()
        tools = [ToolInfo(**tool["function"]) for tool in session.tools]
        while not session.end:
            state.messages = _messages(session)
            config = GenerateConfig(stop_seqs=session.info["stop"] or None)
            state.output = await get_model().generate(state.messages, tools, config=config)
            calls = [(call.function, call.arguments) for call in state.output.message.tool_calls or ()]
            await session.act_async(state.output.completion, calls)
            keep()
        state.messages = _messages(session)
        return state

    return solver("agent_envs")(lambda: solve)()


def earned() -> Any:
    """Return the scorer: `success` (0 or 1) and `reward`, the sum over the episode, each with its mean and standard error."""
    with needs("inspect-ai", "inspect"):
        from inspect_ai.scorer import Score, mean, scorer, stderr

    async def score(state: Any, target: Any) -> Any:
        """Score a sample by what the solver stored: success as 0 or 1, and the sum of rewards."""
        episode: Row = state.store.get("agent_envs")
        return Score(value={"success": int(episode["success"]), "reward": sum(episode["rewards"])}, metadata=episode)

    metrics = {name: [mean(), stderr()] for name in ("success", "reward")}
    return scorer(metrics, name="agent_envs")(lambda: score)()


def _messages(session: Session) -> list[Any]:
    """Convert a session's history to Inspect's chat messages."""
    from inspect_ai import model
    from inspect_ai.tool import ToolCall

    def message(turn: ChatTurn) -> Any:
        """Convert one turn to Inspect's message of its role, with calls and call ids."""
        if turn.role == "assistant":
            calls = [
                ToolCall(id=call.id, function=call.name, arguments=json.loads(call.arguments)) for call in turn.calls
            ]
            return model.ChatMessageAssistant(content=turn.text, tool_calls=calls or None)
        if turn.role == "tool":
            return model.ChatMessageTool(content=turn.text, tool_call_id=turn.call_id)
        return (model.ChatMessageSystem if turn.role == "system" else model.ChatMessageUser)(content=turn.text)

    return [message(turn) for turn in conversation(ChatRequest(session.history, session.tools))]
