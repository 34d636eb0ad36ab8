"""Search QA asks multi-hop questions that are answered by searching a corpus.

Modules, in reading order:
    env: `SearchQA`, the TurnEnv itself: search, answer, limits, retriever, formats of passages; read it first.
    tasks: the task sources: generated fact worlds, or published data sets (NQ, HotpotQA, ...) over a corpus.
    scoring: rewards `em`, `em_format` and `f1`, and the metrics of abstaining and wrong answers.
    solver, heuristic: oracle policy and random policy, and a baseline that searches once and guesses.
    feedback, chains: scripted feedback, and the chain of facts that a question asks for.
    prompt.md, prompt_json.md, feedback.json: the prompts, in tags and for native calls, and the wordings of scripted feedback.
"""

from agent_envs.core.registry import register_companions

register_companions(
    "agent_envs.envs.search_qa.env:SearchQA",
    solver="agent_envs.envs.search_qa.solver:next_action",
    sampler="agent_envs.envs.search_qa.solver:random_action",
    heuristic="agent_envs.envs.search_qa.heuristic:search_once_and_guess",
    metrics="agent_envs.envs.search_qa.scoring:metrics",
    first_look="agent_envs.envs.search_qa.env:first_look",
    feedback="agent_envs.envs.search_qa.feedback:give_feedback",
)
