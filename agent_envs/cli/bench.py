"""`agent-envs bench` computes exactly what sorting algorithms need and earn, without playing."""

from fractions import Fraction
from typing import Annotated, Any

import typer

from agent_envs.base.errors import UsageError
from agent_envs.base.terminal import print_result, print_table, show
from agent_envs.cli.options import Json

_MOST = 6  # items: 720 permutations for each algorithm and direction
_DEFAULT = (2, 3, 4, 5)
_HEADS = {
    "algorithm": "algorithm", "mean_compares": "compares", "max_compares": "most", "mean_swaps": "swaps", "max_swaps": "most",
    "all_sorted": "sorts", "released": "released", "fixed": "fixed",
}  # fmt: skip


def bench(
    name: Annotated[str, typer.Argument(help="What to compute: sorting.")],
    n: Annotated[
        list[int] | None, typer.Option("--n", min=2, max=_MOST, help="Number of items; repeatable. Without it: 2 to 5.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute reference figures exactly.

    sorting: what algorithms need and earn, over all permutations of the items.
    A row tells an algorithm's comparisons and swaps, in the mean and at worst,
    whether it sorts every permutation, and what the rewards `released` and
    `fixed` pay it in the mean. No plan has lower means than `optimal`, which is
    computed up to 5 items. `fixed` pays it most; `released` can pay it less
    than plans that compare more. network-4 is the paper's "GCC"; earl-star is
    its Algorithm 2 with conclusions drawn, and as printed.
    """
    if name != "sorting":
        raise UsageError(f"bench {name}: there is none of that name; the benches are sorting")
    from agent_envs.envs.expa.sorting.algorithms import plain_row, reference_rows, strata, told_together

    sizes = sorted(set(n or _DEFAULT))
    rows = reference_rows(sizes)
    found = {n: strata(n) for n in sizes}

    def text() -> None:
        for n in sizes:
            cells = [[_cell(row[key]) for key in _HEADS] for row in told_together(rows) if row["items"] == n]
            print_table(f"Sort-{n}: exact means over all permutations", list(_HEADS.values()), cells)
        counts = [[str(least), *(str(found[n].get(least, "")) for n in sizes)] for least in range(max(sizes))]
        heads = ["fewest swaps", *(f"{n} items" for n in sizes)]
        print_table("Permutations by the fewest swaps that sort them", heads, counts)
        show(
            "They play too: agent-envs eval Sort --agent agent_envs.envs.expa.sorting.agent:SortingAgent "
            "--agent-arg algorithm=merge"
        )

    by_swaps = {str(n): {str(least): count for least, count in row.items()} for n, row in found.items()}
    print_result({"bench": "sorting", "rows": [plain_row(row) for row in rows], "strata": by_swaps}, as_json, text)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{float(value):.4f}" if isinstance(value, float | Fraction) else str(value)
