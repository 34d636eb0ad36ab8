"""The integrations show the environments to the trainers and tools of others: tools with schemas, and rows of tasks.

They name no trainer: any that takes OpenAI's tool schemas, chat messages or a data set of prompts can read them. The first two
are public in `agent_envs`; docs/integrations.md shows them, and begins with what every trainer stumbles over.

Modules, in reading order:
    tools: `tool_view`, the tools of any id in text, whatever its protocol, and how a call of one is written as an action.
    tasks: `task_rows`, the tasks of an id as rows of a data set; a reset by a row gives the start that its prompt shows.
    tool_texts: `tool_episodes`, answers with tools that others published to train on, as episodes to imitate.
"""

from agent_envs.integrations.tasks import task_rows
from agent_envs.integrations.tools import ToolView, tool_view

__all__ = ["ToolView", "task_rows", "tool_view"]
