"""Tools are what environments call for a policy: retrieval over a corpus, the live web, and code execution in a sandbox.

Schemas of tool calls are not here but in `agent_envs.base.tool_schema`.

Modules, in reading order:
    retrieval/: search over a corpus: BM25, dense vectors, hybrids, search servers, ablations.
    sandbox/: Python code that a model wrote, run under limits of time, memory and output.
    web/: web search by Serper, Brave or SearXNG, and a reader of web pages.
    listening: who may reach a server of the package, its connections and its socket.
    native_tags: tools that are called in tags, as native calls.
    forms: a person is asked for a tool's arguments, by their schema.
    bounded_processes: our own work on what strangers made, in processes bounded in time and memory, without a network.
"""
