"""The verbs `report`, `compare`, `view` and `pack` read runs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from agent_envs.base.errors import UsageError
from agent_envs.base.terminal import print_result, print_table, show
from agent_envs.cli.options import Json, print_pack_notes

RunFolders = Annotated[
    list[Path], typer.Argument(help="Folders of runs, as `eval` printed them; one or several agents.")
]
RunFolder = Annotated[Path, typer.Argument(help="Folder of a run, as `eval` printed it.")]


def report(
    runs: RunFolders,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    page: Annotated[Path | None, typer.Option(help="Write it as one HTML file, with figures.")] = None,
    as_json: Json = False,
) -> None:
    """Print the tables of runs: success, trials, behaviour, how episodes ended, the smallest difference to be seen.

    For runs over turn limits: accuracy, abstention, wrong answers and turns against the limit, several agents together.
    """
    from agent_envs.evaluation.html.report_page import write_report
    from agent_envs.evaluation.report.report import report_on
    from agent_envs.evaluation.runs.run_folder import open_run

    summary = report_on(*map(open_run, runs))
    if page is not None:
        write_report(page, summary)

    def text() -> None:
        """Print the report as Markdown or as tables, with its notes and the page's place."""
        if markdown:
            show(summary.markdown().rstrip("\n"))
            return
        show(summary.title)
        for table in summary.tables:
            print_table(table.caption, *table.texts())
        for note in summary.notes:
            show(f"note: {note}")
        if page is not None:
            show(f"page: {page}")

    print_result(summary.to_json(), as_json, text)


def compare(
    run: RunFolder,
    other: Annotated[Path | None, typer.Argument(help="A second run. Without it: the entries of a sweep.")] = None,
    page: Annotated[Path | None, typer.Option(help="Write it as one HTML file, with a forest plot.")] = None,
    as_json: Json = False,
) -> None:
    """Compare two agents task by task, or the entries of one sweep with its first. Differences are second minus first."""
    from agent_envs.evaluation.html.report_page import write_comparison
    from agent_envs.evaluation.report.compare import compare_entries, compare_runs
    from agent_envs.evaluation.runs.run_folder import open_run
    from agent_envs.evaluation.statistics.paired import p_text

    first = open_run(run)
    contrasts, notes = compare_entries(first) if other is None else compare_runs(first, open_run(other))
    if page is not None:
        write_comparison(page, contrasts, notes)

    def text() -> None:
        """Print each entry's two rates, their difference with interval and p value, and the metrics."""
        methods = {contrast.paired.method for contrast in contrasts}
        show(f"paired by task: {methods.pop() if len(methods) == 1 else 'of each entry as told there'}")
        for contrast in contrasts:
            pair, (one, two) = contrast.paired, contrast.rates
            show(f"\n{contrast.entry}: {contrast.verdict()}" + (f" ({pair.method})" if methods else ""))
            show(f"  first   {contrast.first}: {one.text()}\n  second  {contrast.second}: {two.text()}")
            show(
                f"  second minus first {100 * pair.difference:+.1f} points [{100 * pair.low:+.1f}, {100 * pair.high:+.1f}], "
                f"p {p_text(pair.p_value)}, after Holm {p_text(contrast.adjusted)}"
            )
            show(f"  differences below about {100 * pair.detectable:.1f} points would probably go unseen (80 % power)")
            for name, text_of_metric in contrast.metric_texts():
                show(f"  {name}: {text_of_metric}")
        for note in notes:
            show(f"note: {note}")
        if page is not None:
            show(f"page: {page}")

    print_result({"contrasts": [contrast.to_json() for contrast in contrasts], "notes": notes}, as_json, text)


def view(
    run: RunFolder,
    out: Annotated[Path | None, typer.Option(help="Folder of the pages (default: RUN/view).")] = None,
    most: Annotated[int | None, typer.Option("-n", min=1, help="At most N transcripts.")] = None,
    as_json: Json = False,
) -> None:
    """Write a run's episodes and transcripts as static pages, and print the path of the first."""
    from agent_envs.base.terminal import progress_bar
    from agent_envs.evaluation.html.view import write_view

    with progress_bar(f"pages of {run}", quiet=as_json) as progress:
        index = write_view(run, out or run / "view", most=most, progress=progress)
    print_result({"index": str(index)}, as_json, lambda: show(str(index)))


def pack(
    run: Annotated[Path | None, typer.Argument(help="Folder of a run, as `eval` printed it.")] = None,
    target: Annotated[Path | None, typer.Argument(help="A new or empty folder for the submission.")] = None,
    about: Annotated[Path | None, typer.Option(help="JSON file about submitter, models and training.")] = None,
    template: Annotated[
        bool, typer.Option("--template", help="Print a JSON file to fill in for --about, and pack nothing.")
    ] = False,
    incomplete: Annotated[bool, typer.Option("--incomplete", help="Pack unplayed episodes, which count 0.")] = False,
    allow: Annotated[
        list[str] | None, typer.Option(help="A kind of secret that the scan lets pass; a refusal names the kind.")
    ] = None,
    no_replay: Annotated[
        bool, typer.Option("--no-replay", help="Do not step the episodes again; the manifest says so.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Step every episode of a run again and pack it as a submission (docs/submission.md)."""
    from agent_envs.evaluation.submission.pack import pack_run
    from agent_envs.evaluation.submission.provenance import about_template

    if template:
        show(about_template().rstrip("\n"))
        return
    if run is None or target is None:
        raise UsageError("pack: name the folder of a run and a folder for the submission, or --template")
    name = pack_run(run, target, about, incomplete=incomplete, allow=tuple(allow or ()), replay=not no_replay)
    row: dict[str, Any] = {"submission": name, "folder": str(target)}
    print_result(row, as_json, lambda: show(name))
    print_pack_notes(target, name)
