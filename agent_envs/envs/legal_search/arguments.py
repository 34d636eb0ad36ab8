"""Task sources are made by name here, and the environment's retrievers and limits are checked."""

from collections.abc import Mapping
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.envs.legal_search.generated import GeneratedSource
from agent_envs.envs.legal_search.statutes import StatutesConfig, get_statutes
from agent_envs.envs.legal_search.tasks import LegalSource
from agent_envs.tools.retrieval.build import MODEL_FORMS, REMOTE_FORMS, RETRIEVERS, is_retriever
from agent_envs.tools.retrieval.remote import split_name
from agent_envs.tools.retrieval.static import static_encoder


def make_source(tasks: str, world: Mapping[str, Any] | None) -> LegalSource:
    """Return the task source of a name.

    Args:
        tasks: `statutes`, `dc_code`, or a file of questions.
        world: knobs of generated law.

    Raises:
        UsageError: a knob is unknown or out of its range, or stands beside tasks that are not generated.
        DataMissing: the tasks are not on this machine.
    """
    if not isinstance(tasks, str) or not tasks:
        raise UsageError(f"LegalSearch: tasks={tasks!r}; give statutes, dc_code or a file")
    if world is not None and not isinstance(world, Mapping):
        raise UsageError(f"LegalSearch: world={world!r}; give a mapping of knobs, or leave it out")
    if tasks == "statutes":
        try:
            return GeneratedSource(tasks, StatutesConfig(**dict(world or {})), get_statutes)
        except TypeError as error:
            raise UsageError(f"LegalSearch: world={world!r}: {error}") from error
    if world is not None:
        raise UsageError(f"LegalSearch: world={world!r} has no meaning with tasks={tasks!r}; leave it out")
    from agent_envs.envs.legal_search.published import legal_source

    return legal_source(tasks)


def check_engines(**engines: str) -> None:
    """Refuse what is no retriever.

    Raises:
        UsageError: there is no retriever of that name.
        MissingExtra: the package of the static embeddings is not installed.
    """
    for argument, name in engines.items():
        if not isinstance(name, str) or not (is_retriever(name) or split_name(name) is not None):
            known = ", ".join((*RETRIEVERS, *MODEL_FORMS, *REMOTE_FORMS))
            raise UsageError(f"LegalSearch: {argument}={name!r}; the engines are {known}")
        if name == "static" or name.partition("=")[0] == "hybrid":
            static_encoder()  # at once, and not at the first reset; dense engines wait, as a replay needs none
