"""The cost of tokens is computed from a dated table of prices. It is imported at use, as pydantic is.

Prices go stale, so a cost is always computed from counted tokens and a named table, and can be computed again from another.
"""

import re
from collections.abc import Mapping
from importlib.resources import files
from math import inf
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from agent_envs.base.errors import UsageError
from agent_envs.base.strict_model import Strict

Usd = Annotated[float, Field(ge=0, le=100_000)]


class Price(Strict):
    """US dollars for a million tokens. Cached input is priced as input where no price of its own is given."""

    input: Usd
    output: Usd
    cached: Usd | None = None
    cache_write: Usd | None = None


class PriceTable(Strict):
    """Prices of models on a date."""

    format: Annotated[Literal["agent-envs/prices@1"], Field(alias="schema")]
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    source: str
    models: dict[str, Price]

    def price(self, agent: str) -> Price | None:
        """Return an agent's price by its whole name, its model's, or that without a date; None where the table has none.

        A snapshot's date at the end of a model's name may be missing in the table.
        """
        model = re.split(r"@(?=https?://)", agent.partition(":")[2])[0]
        undated = re.sub(r"-(\d{8}|\d{4}-\d{2}-\d{2})$", "", model)
        return self.models.get(agent) or self.models.get(model) or self.models.get(undated)


def load_prices(path: str | Path | None = None) -> PriceTable:
    """Return the table of a file, or the one that comes with the package. Raises UsageError: the file is no table of prices."""
    text: str | bytes
    if path is None:
        text = files("agent_envs.services.chat").joinpath("prices.json").read_text(encoding="utf-8")
    elif not Path(path).is_file():
        raise UsageError(f"--prices {path}: there is no such file")
    else:
        text = Path(path).read_bytes()
    try:
        return PriceTable.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the text"
        raise UsageError(f"{path or 'prices.json'} is no table of prices: {where}: {first['msg']}") from None


def cost_of(price: Price, usage: Mapping[str, int]) -> float:
    """Return US dollars for counted tokens. `cached` and `cache_write` are parts of `input`; `reasoning` of `output`."""
    cached, cache_write = usage.get("cached", 0), usage.get("cache_write", 0)
    plain = max(usage.get("input", 0) - cached - cache_write, 0)
    dollars = plain * price.input + usage.get("output", 0) * price.output
    dollars += cached * (price.input if price.cached is None else price.cached)
    dollars += cache_write * (price.input if price.cache_write is None else price.cache_write)
    return dollars / 1e6


def check_limit(most_usd: float, price: Price | None, agent: str) -> Price:
    """Return the price of an agent whose cost is to be limited; UsageError for a limit not above 0, or without a price.

    Raises UsageError: the limit is no number above 0, or no price is known.
    """
    if not 0 < most_usd < inf:
        raise UsageError(f"--max-cost {most_usd}: give US dollars > 0")
    if price is None:
        raise UsageError(
            f"--max-cost: no price is known for agent {agent!r}; give a table with --prices FILE "
            '({"schema": "agent-envs/prices@1", "date": ..., "source": ..., "models": {NAME: {"input": ..., "output": ...}}})'
        )
    return price
