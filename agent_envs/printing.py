"""Printing for people and for programs."""

import json
from collections.abc import Callable
from typing import Any


def print_result(value: Any, as_json: bool, text: Callable[[], None]) -> None:
    """Print a value as JSON, or call what prints it as text."""
    if as_json:
        print(json.dumps(value, indent=2, ensure_ascii=False))
    else:
        text()


def print_table(title: str, heads: list[str], rows: list[list[str]]) -> None:
    """Print a table; cells are text and never markup."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title)
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    Console().print(table)
