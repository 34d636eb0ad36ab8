"""Base holds the types and helpers that the rest of the package builds on: errors, messages, parsers, tools, files, printing.

Modules, in reading order:
    errors: the exceptions, from `UsageError` to `EnvFault`, an infrastructure error that never becomes a reward.
    messages: chat messages with role and author, tool calls, tool results, their text, and `Utterance`, the space of all texts.
    protocol: the parsers from a policy's text to an action: tags, marked answers, JSON tool calls, labels; stop strings.
    dialects: turns as language models write them, rewritten to a protocol's form: thoughts, calls, replies that run on.
    tool_schema: the `@tool` decorator: JSON schemas from signatures, checked arguments, and a `Toolkit` that executes calls.
    documents: passages, corpora in memory, hits, and the `Retriever` interface.
    serialization, type_checks: canonical JSON, sha256 digests, encoding of stored state, and the check of its field types.
    jsonl_log: appending rows to a JSONL file so that a kill loses none, and the file lock; the rows are their writers'.
    strict_model: the pydantic base of what is read from files: exact types, no unknown keys.
    caches: the cache folder (`AGENT_ENVS_CACHE`), rows kept there, atomic writes, and values that threads of a process share.
    terminal: printing, tables, escaping of control and hidden characters; progress bars on standard error; checks of names.
    arguments: checks of the arguments of constructors, with one form of error.
    version: the version number of the package, and the digest of its files.
"""
