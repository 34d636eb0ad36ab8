"""Tool reasoning asks questions that are answered by searching, browsing and calculating in a sandbox.

Modules, in reading order:
    env: the environment, its arguments, prompt, turns and episode end; read it first.
    actions: the parser: tool calls in tags or JSON, and the answer.
    calls: carrying out tool calls, with limits for each tool.
    toolbox: retriever, page reader, page summaries and sandbox; recording and replay.
    observations: pages that browse opens, and the text that the policy reads.
    equality: comparing the answer with the gold answers, exact or by math-verify.
    scoring: rewards (hierarchical, accuracy, em, f1), outcomes and metrics.
    content, tasks: task data and labels with the hidden solution, and the sources of tasks and their splits.
    math_world/: generated problems with exact answers.
    arguments: checks of arguments, which tools are offered, and limits of a program.
    solver, heuristic: the oracle policy and the random policy; a baseline without a model that searches and guesses.
    feedback: scripted feedback (hints); the words are in feedback.json.
    prompt.md, prompt_json.md, reader.md: the prompts of the two protocols, and of the model that sums pages up.
"""

from agent_envs.core.registry import register_companions

register_companions(
    "agent_envs.envs.tool_reasoning.env:ToolReasoning",
    solver="agent_envs.envs.tool_reasoning.solver:next_action",
    heuristic="agent_envs.envs.tool_reasoning.heuristic:search_and_guess",
    sampler="agent_envs.envs.tool_reasoning.solver:random_action",
    labels="agent_envs.envs.tool_reasoning.content:labels_of",
    metrics="agent_envs.envs.tool_reasoning.scoring:metrics",
    first_look="agent_envs.envs.tool_reasoning.env:first_look",
    feedback="agent_envs.envs.tool_reasoning.feedback:give_feedback",
)
