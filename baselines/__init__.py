"""Baselines are the agents that papers compare with: each one file, over any chat model, without torch.

An agent is a policy: it sees a `Request` (the messages of an episode, never an environment) and answers with an action that
the environment parses, so that limits on turns and searches stay the environment's. From a checkout the runner reaches one by
`--agent baseline:NAME --agent-arg model=openai:MODEL@URL`, or as `baselines.rag:RAG`.

Modules, in reading order:
    chat_agent: the base class, and the calls of one turn to the chat model.
    view: an episode as a procedure reads it: the question, the evidence, the limits, and the forms of search and answer.
    prompts/: The texts of prompts, in our own words, with slots.
    agents: the agents by their short names.
    direct, cot, rag, ircot, search_o1: question answering without retrieval, with one search, and with several.
    tool_agent, tag_agent, prompted_tools, react: a model that chooses its tools itself, natively, by tags, by text.
    deep_search: a deep-search agent that keeps notes and sees the newest result only.
    forced_answer: a search agent that must answer after a number of turns.
    program_of_thought: a program computes the number.
    games: the four conditions that games are played under: naive, reasoning, short history, careful reasoning.
    sorting: the reference sorting algorithms.
    multi_hop: no model: it searches again with what it found, along the chain of a generated question.
    validator: the model that gives feedback plays itself.
    self_consistency: a vote over several samples of another agent's turn.
    best_of_n, reflexion: commands: the best of n episodes as JSONL, and several attempts with reflections between.
    scripted_reader, legal_reader, reading_errors: a test double that reads generated tasks and errs at three rates.
    table_rows, table: the papers' tables as commands, with the published numbers below ours.
    examples, transcripts: commands that write the worked episodes of prompts, and the episodes of docs/baselines.md.
"""
