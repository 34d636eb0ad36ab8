"""`agent-envs data list | get | path` lists and fetches published data sets."""

import os
import sys
from enum import StrEnum
from typing import Annotated

import typer

from agent_envs.base.terminal import print_result, print_table
from agent_envs.cli.options import Json

data_app = typer.Typer(help="List, locate and download published data sets.", no_args_is_help=True)


class Source(StrEnum):
    """Where a data set is downloaded from."""

    hub = "hub"
    official = "official"


DataName = Annotated[str, typer.Argument(help="A name of `agent-envs data list`: hotpotqa, wiki-18.")]


@data_app.command("list")
def data_list(as_json: Json = False) -> None:
    """List data sets and corpora: published splits, licence, where they come from, and what is on this machine."""
    from agent_envs.datasets.listing import data_rows

    rows = data_rows()
    folder = os.environ.get("AGENT_ENVS_DATA")
    if folder and not os.path.isdir(folder):
        print(f"AGENT_ENVS_DATA names {folder}, which is no folder", file=sys.stderr)
    heads = ["name", "title", "domain", "published", "here", "licence", "from"]
    cells = [[row[head] for head in heads] for row in rows]
    print_result(rows, as_json, lambda: print_table("Data sets and corpora", heads, cells))


@data_app.command("get")
def data_get(
    name: DataName,
    split: Annotated[str, typer.Option(help="train, dev or test; a corpus has none.")] = "",
    source: Annotated[Source, typer.Option(help="Site of the download.")] = Source.hub,
) -> None:
    """Download a data set's split, or a corpus, and print where it is."""
    from agent_envs.base.terminal import byte_bar
    from agent_envs.datasets.download import get

    with byte_bar(name) as progress:
        path = get(name, split, progress, source=source.value)
    print(path)


@data_app.command("path")
def data_path(
    name: DataName, split: Annotated[str, typer.Option(help="train, dev or test; default: every one here.")] = ""
) -> None:
    """Print the files that an environment would read for a name."""
    from agent_envs.datasets.listing import data_paths

    for path in data_paths(name, split):
        print(path)
