"""The command line `agent-envs` plays, evaluates and checks environments; each of its verbs is a function in a module here.

Modules, in reading order:
    app: the entry point and exit codes; the verbs `list`, `show`, `play` (by hand), `new` and `check` (the contract test).
    eval: the verb `eval`, with `--suite`, `--sweep`, `--turn-limits`, `--concurrency`, `--max-cost`, `--resume` ...
    runs: the verbs that read runs: `report`, `compare`, `view` (HTML pages) and `pack` (a submission).
    data: the verbs `data list`, `data get` (download), `data path`; `data make-qa` says where it lives.
    serve: the verb `serve-retriever`, a retriever behind HTTP.
    bench: the verb `bench`, exact figures of sorting algorithms.
    options: options that several verbs share, the parsing of NAME=VALUE, Ctrl-C once and twice.
"""
