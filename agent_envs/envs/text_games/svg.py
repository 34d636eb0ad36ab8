"""Pictures of games are SVGs: shapes on a grid of square cells, with lines of text below."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

INK = "#1d2430"
# Paper and ink where a dark page shows the picture.
DARK = "<style>@media (prefers-color-scheme:dark){.paper{fill:#17181a}.ink{fill:#e4e3df}}</style>"
LEAST_WIDTH = 320  # pixels, so that the text below a small map has room


def document(
    width: int,
    height: int,
    body: str,
    lines: Iterable[str],
    *,
    top: int,
    left: int = 4,
    line: int = 17,
    size: int = 13,
    before: str = "",
) -> str:
    """Return a standalone SVG of a body and, from `top` down, lines of text, each `line` high; `before` stands before them."""
    texts = (f'<text x="{left}" y="{top + line * row}">{escape(text)}</text>' for row, text in enumerate(lines, 1))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img">{DARK}<rect class="paper" width="{width}" height="{height}" fill="#fff"/>{body}'
        f'<g class="ink" font-family="system-ui,sans-serif" font-size="{size}" fill="{INK}">{before}{"".join(texts)}</g></svg>'
    )


class Cells:
    """The cells of a map, row by row, as places in a picture."""

    def __init__(self, width: int, side: int) -> None:
        self.width, self.side = width, side

    def corner(self, place: int) -> str:
        """Return the start of a path at the upper left corner of a cell."""
        return f"M{place % self.width * self.side} {place // self.width * self.side}"

    def runs(self, places: Sequence[int]) -> str:
        """Return the path over cells in their order, one rectangle for each run side by side in a row; "" for none."""
        ends = [n for n in range(1, len(places)) if places[n] != places[n - 1] + 1 or not places[n] % self.width]
        path = []
        for start, end in zip([0, *ends], [*ends, len(places)], strict=True) if places else ():
            length = (end - start) * self.side
            path.append(f"{self.corner(places[start])}h{length}v{self.side}h-{length}z")
        return "".join(path)

    def stamped(self, shapes: Mapping[tuple[str, str], Iterable[int]]) -> str:
        """Return one path for each fill and outline, the outline repeated at each of its cells."""
        return "".join(
            f'<path fill="{fill}" d="{"".join(self.corner(place) + outline for place in places)}"/>'
            for (fill, outline), places in shapes.items()
        )
