"""Legal search asks questions of law that are answered by searching and reading a hierarchy of sections, with citations.

Modules, in reading order:
    env: `LegalSearch`, the TurnEnv itself: keyword search, semantic search, read, answer; read it first.
    tools: the parser of a turn in tags or JSON tool calls, tool schemas, format errors.
    observations: search results as extracts, and sections in pages.
    outcomes, scoring: right, cited, abstained or wrong; the rewards `segmented` and `art_e`, metrics and labels.
    tasks, library: the hidden scenario of a question, and the tree of sections that is searched (`Library`).
    generated: questions, worlds and the task source of generated law, and checks of its settings.
    statutes, statute_facts, statute_text: a generated body of law: its settings, its facts, its text.
    statute_parts: the vocabulary of generated law, names of provinces and forms of amounts; statute_wordings.json.
    questions, statute_trails: questions about generated law, and the paragraphs and amounts that they rest on.
    dates: dates in words, and the accepted forms of a date.
    published: the D.C. Code, contracts, and files of questions, by name or path.
    node_files, question_files: readers of JSONL nodes and texts; rows as tasks.
    solver: oracle policy and random policy.
    heuristic, transcript: the searcher: rules over sentences, no gold; what it was shown, parsed.
    cues: words that count, amounts, units and days in texts; thesaurus.txt, words of one meaning.
    feedback: scripted feedback by the searcher's rules, and the one search that forced answers are shown.
    prompt.md, prompt_json.md: the prompt of each protocol.
"""

from agent_envs.core.registry import register_companions

register_companions(
    "agent_envs.envs.legal_search.env:LegalSearch",
    solver="agent_envs.envs.legal_search.solver:next_action",
    sampler="agent_envs.envs.legal_search.solver:random_action",
    heuristic="agent_envs.envs.legal_search.heuristic:search_and_read",
    labels="agent_envs.envs.legal_search.scoring:labels",
    metrics="agent_envs.envs.legal_search.scoring:metrics",
    first_look="agent_envs.envs.legal_search.feedback:first_look",
    feedback="agent_envs.envs.legal_search.feedback:give_feedback",
)
