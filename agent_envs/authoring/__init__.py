"""Authoring writes an environment of one's own from templates: a small game that passes the checker before a line is changed.

Modules, in reading order:
    writing: a package of one's own, or a family inside a checkout of this project; nothing that exists is overwritten.
    templates/: the files, with `$name` and the like (`string.Template`) where names go; expanded/: those with expanded actions.
"""

from agent_envs.authoring.writing import write_environment

__all__ = ["write_environment"]
