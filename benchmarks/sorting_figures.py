"""Sorting algorithms are measured exactly, without playing: what they need and earn over all permutations of the items.

`python -m benchmarks.sorting_figures [--n 4] [--json]`. A row tells an algorithm's comparisons and swaps, in the mean and at
worst, whether it sorts every permutation, and what the rewards `released` and `fixed` pay it in the mean. No plan has lower
means than `optimal`, which is computed up to 5 items. `fixed` pays it most; `released` can pay it less than plans that compare
more. network-4 is the paper's "GCC"; earl-star is its Algorithm 2 with conclusions drawn, and as printed.
"""

from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import Annotated, Any

import typer

from agent_envs.base.terminal import print_result, print_table, show
from agent_envs.cli.options import Json
from agent_envs.envs.expa.sorting.algorithms import ALGORITHMS, able_sizes
from agent_envs.envs.expa.sorting.scoring import fixed, released
from benchmarks.sorting_plays import exact, mean_reward, strata

_MOST = 6  # items: 720 permutations for each algorithm and direction
_DEFAULT = (2, 3, 4, 5)
_HEADS = {
    "algorithm": "algorithm", "mean_compares": "compares", "max_compares": "most", "mean_swaps": "swaps", "max_swaps": "most",
    "all_sorted": "sorts", "released": "released", "fixed": "fixed",
}  # fmt: skip


def sorting_figures(
    n: Annotated[
        list[int] | None, typer.Option("--n", min=2, max=_MOST, help="Number of items; repeatable. Without it: 2 to 5.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute what sorting algorithms need and earn, over all permutations of the items."""
    sizes = sorted(set(n or _DEFAULT))
    rows = reference_rows(sizes)
    strata_by_size = {n: strata(n) for n in sizes}

    def text() -> None:
        """Print the exact means by number of items, and the counts of permutations by fewest swaps."""
        for n in sizes:
            cells = [[_cell(row[key]) for key in _HEADS] for row in merge_directions(rows) if row["items"] == n]
            print_table(f"Sort-{n}: exact means over all permutations", list(_HEADS.values()), cells)
        counts = [[str(least), *(str(strata_by_size[n].get(least, "")) for n in sizes)] for least in range(max(sizes))]
        heads = ["fewest swaps", *(f"{n} items" for n in sizes)]
        print_table("Permutations by the fewest swaps that sort them", heads, counts)
        show("They play too: agent-envs eval Sort --agent baseline:sorting --agent-arg algorithm=merge")

    by_swaps = {str(n): {str(least): count for least, count in row.items()} for n, row in strata_by_size.items()}
    print_result({"rows": [plain_row(row) for row in rows], "strata": by_swaps}, as_json, text)


def reference_rows(sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Return every algorithm's exact figures and rewards, by number of items, in both directions."""
    return [
        {
            "items": n,
            "algorithm": name,
            "direction": "descending" if descending else "ascending",
            **asdict(exact(name, n, descending)),
            "released": mean_reward(name, n, released, descending),
            "fixed": mean_reward(name, n, fixed, descending),
        }
        for n in sizes
        for name in ALGORITHMS
        if n in able_sizes(name)
        for descending in (False, True)
    ]


def merge_directions(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row where both directions of `reference_rows` have the same figures, else both, named."""
    merged_rows = []
    for up, down in zip(rows[::2], rows[1::2], strict=True):
        alike = {**up, "direction": ""} == {**down, "direction": ""}
        both = ({**row, "algorithm": f"{row['algorithm']}, {row['direction']}"} for row in (up, down))
        merged_rows += [up] if alike else [*both]
    return merged_rows


def plain_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row for JSON; a mean is a number, and stands as a fraction under `exact`."""
    fractions = {key: value for key, value in row.items() if isinstance(value, Fraction)}
    means = {key: float(value) for key, value in fractions.items()}
    return {**row, **means, "exact": {key: str(value) for key, value in fractions.items()}}


def _cell(value: Any) -> str:
    """Return a value as a cell: yes or NO for a bool, four decimals for a fraction."""
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{float(value):.4f}" if isinstance(value, float | Fraction) else str(value)


if __name__ == "__main__":
    typer.run(sorting_figures)
