"""Authoring writes from templates: an environment of one's own, or the package by which a hub installs one that is there.

Modules, in reading order:
    writing: a package of one's own, or a family inside a checkout of this project; nothing that exists is overwritten.
    hubs/: the packages of hubs, all files of one in a text, behind their paths.
    templates/: the files of a small game that passes the checker before a line is changed, with `$name` and the like
        (`string.Template`) where names go; expanded/: those with expanded actions.
"""

from agent_envs.authoring.writing import write_environment, write_for_hub

__all__ = ["write_environment", "write_for_hub"]
