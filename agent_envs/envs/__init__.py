"""Each sub-package here holds one family of environments; families never import each other.

`agent_envs.core.registry` has the table of all ids. The names below lack `agent_envs/` and `-v0`.

Modules, in reading order:
    search_qa/: SearchQA, multi-hop questions answered by searching a corpus.
    legal_search/: LegalSearch, questions of law answered by searching and reading a code of law, with citations.
    tau2/: Tau2Retail, Tau2Airline, Tau2Telecom, customer service with tools, a policy and a simulated user (tau2-bench).
    expa/: Arithmetic, Countdown, Count, GSM8KScaled, CalcBench, Sort, Order, and each with expanded actions (ArithmeticExpA).
    text_games/: BabyAI, BabaIsAI, Crafter, and an adapter for other Gymnasium environments.
    tool_reasoning/: ToolReasoning, mathematics and questions with search, browse and a Python sandbox.
"""
