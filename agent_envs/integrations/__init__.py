"""The integrations show the environments to the trainers and tools of others: tools, rows of tasks, and adapters.

`task_rows` and `tool_view` are public in `agent_envs`. An adapter imports its trainer at use; docs/integrations.md has scripts.

Modules, in reading order:
    tools: `tool_view`, the tools of any id in text, whatever its protocol, and how a call of one is written as an action.
    session: `Session`, an environment and the episode in it, by messages, texts and calls, also for an event loop, or in
        token ids; `task_rows`, the tasks of an id as rows of a data set, whose reset gives the start that its prompt shows.
    upstream: importing a trainer late, and building on its classes.
    third_party: anyone's environment for the checker, by `gym:ID`, `openenv:URL` or `verifiers:ID`.
    trl, trl_rollout, skyrl, openenv, verifiers, verl, gem, inspect_ai: one trainer or tool each.
"""

from agent_envs.integrations.session import Session, task_rows
from agent_envs.integrations.tools import ToolView, tool_view

__all__ = ["Session", "ToolView", "task_rows", "tool_view"]
