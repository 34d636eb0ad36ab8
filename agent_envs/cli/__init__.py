"""The command line `agent-envs` plays, evaluates and checks environments; each of its verbs is a function in a module here.

Modules, in reading order:
    app: the entry point and exit codes; the verbs `list`, `show`, `new` and `check` (the contract test).
    play: the verb `play`: a person plays an episode at the terminal.
    eval: the verb `eval`, with `--suite`, `--sweep`, `--turn-limits`, `--concurrency`, `--max-cost`, `--resume` ...
    runs: the verbs that read runs: `report`, `compare`, `view` (HTML pages) and `pack` (a submission).
    verify: the verb `verify`, which says of a submission what a reviewer would say.
    data: the verbs `data list`, `data get` (download), `data path`.
    serve: the verb `serve-retriever`, a retriever behind HTTP.
    doctor: the verb `doctor`: extras, data, keys, sandboxes and GPU of this installation.
    options: options that several verbs share and their groups in `--help`, NAME=VALUE, Ctrl-C once and twice.
"""
