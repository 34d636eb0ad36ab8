"""The pages that are generated, and the JSON Schemas, are written by `python -m docs.generate`.

Modules, in reading order:
    generate: a page an environment, the README's table of families, and the check for stale pages.
    claims: the tables of docs/claims.md, and their verdicts.
    sections: generated parts of pages that people write: sandbox figures, data and licences.
    schemas: JSON Schemas of suites and submissions.
    tree: the tree of packages in docs/architecture.md, from their docstrings.
    build_site: the static site of all pages, with an API reference.
"""
