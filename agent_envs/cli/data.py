"""`agent-envs data list | get | path | make-qa` lists and fetches published data sets, and makes benchmarks from a corpus."""

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from agent_envs.base.errors import BudgetSpent
from agent_envs.base.terminal import print_result, print_table, show
from agent_envs.cli.interrupts import two_interrupts

data_app = typer.Typer(
    help="Published data sets: what there is, where it lies, and how to get it.", no_args_is_help=True
)


class Source(StrEnum):
    """Where a data set is downloaded from."""

    hub = "hub"
    official = "official"


DataName = Annotated[str, typer.Argument(help="A name of `agent-envs data list`: hotpotqa, wiki-18.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@data_app.command("list")
def data_list(as_json: Json = False) -> None:
    """List data sets and corpora: published splits, licence, where they come from, and what is on this machine."""
    from agent_envs.datasets.listing import data_rows

    rows = data_rows()
    folder = os.environ.get("AGENT_ENVS_DATA")
    if folder and not os.path.isdir(folder):
        print(f"AGENT_ENVS_DATA names {folder}, which is no folder", file=sys.stderr)
    heads = ["name", "title", "domain", "published", "here", "licence", "from"]
    print_result(
        rows,
        as_json,
        lambda: print_table("Data sets and corpora", heads, [[row[head] for head in heads] for row in rows]),
    )


@data_app.command("get")
def data_get(
    name: DataName,
    split: Annotated[str, typer.Option(help="train, dev or test; a corpus has none.")] = "",
    source: Annotated[Source, typer.Option(help="Where from.")] = Source.hub,
) -> None:
    """Download a data set's split, or a corpus, and print where it is."""
    from agent_envs.base.progress import byte_bar
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


@data_app.command("make-qa")
def data_make_qa(
    corpus: Annotated[
        str,
        typer.Argument(help="dc_code, contracts, a .jsonl file of nodes, a .json question file, a folder of texts."),
    ],
    model: Annotated[str, typer.Option(help="Who asks: openai:MODEL, openai:MODEL@URL or anthropic:MODEL.")],
    out: Annotated[Path, typer.Option(help="The file to write, .jsonl; journal and recording lie beside it.")],
    count: Annotated[int, typer.Option("-n", min=1, help="How many questions.")] = 2_300,
    judge: Annotated[str, typer.Option(help="Who answers and judges (default: the asking model).")] = "",
    unanswerable: Annotated[float, typer.Option(help="Share of questions whose section is taken out.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Of the order of sections.")] = 0,
    concurrency: Annotated[int, typer.Option(min=1, help="Attempts at a time.")] = 4,
    max_cost: Annotated[float | None, typer.Option(help="US dollars: no call begins once they are spent.")] = None,
    prices: Annotated[Path | None, typer.Option(help="A table of prices of yours.")] = None,
    as_json: Json = False,
) -> None:
    """Make a legal benchmark from a corpus by a chat model; LegalSearch reads it as tasks=FILE.

    Stopped or killed, the same command goes on and pays for nothing twice; after --max-cost, which counts what was spent
    before, the same command with a larger one does. Exit code 3: stopped, fewer questions than wanted, or --max-cost is spent.
    """
    from agent_envs.base.progress import stage_lines
    from agent_envs.envs.legal_search.make_qa import QAConfig, make_qa, recording_beside
    from agent_envs.services.chat import ChatModel, make_chat_model
    from agent_envs.services.chat.prices import load_prices
    from agent_envs.services.chat.spending import limited_chats

    config = QAConfig(count=count, unanswerable=unanswerable, seed=seed, concurrency=concurrency)
    models: Sequence[ChatModel] = [make_chat_model(name) for name in (model, judge or model)]
    if max_cost is not None:
        models = limited_chats(models, max_cost, load_prices(prices), recording_beside(out))
    try:
        with two_interrupts("running attempts"):
            made = make_qa(corpus, models[0], out, config, judge=models[1], progress=stage_lines("make-qa"))
    except KeyboardInterrupt:
        show("stopped; the same command goes on from here", file=sys.stderr)
        raise typer.Exit(3) from None
    except BudgetSpent as end:
        show(f"--max-cost: {end}; the same command with a larger --max-cost goes on from here", file=sys.stderr)
        raise typer.Exit(3) from None

    def tell() -> None:
        splits = ", ".join(f"{split} {number:,}" for split, number in made.splits.items())
        show(f"{made.path}: {made.questions:,} questions ({splits}; {made.unanswerable:,} unanswerable)")
        wanted = int(unanswerable * made.questions + 0.5)
        if made.unanswerable < wanted:
            left = f"{made.unanswerable:,} of {wanted:,} unanswerable questions could be made"
            show(
                f"note: {left}: what is left of the library answers the others, or the judge gave no verdict",
                file=sys.stderr,
            )
        print_table("Attempts", ["what came of it", "attempts"], [[name, f"{n:,}"] for name, n in made.fates.items()])

    print_result(asdict(made), as_json, tell)
    if made.questions < count:
        raise typer.Exit(3)
