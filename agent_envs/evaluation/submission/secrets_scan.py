"""`SecretScan` looks for known forms of what must not be published: keys, tokens, home directories, e-mail addresses."""

import re
from collections import Counter
from collections.abc import Sequence

from agent_envs.base.errors import UsageError

MOST_NAMED = 10
_RESERVED = (
    r"(?!(?:[A-Za-z0-9-]+\.)*(?:example\.(?:com|org|net)|example|test|invalid|localhost)(?![A-Za-z0-9.-]*[A-Za-z0-9]))"
)
# kind -> (texts, one of which every match holds; the pattern). The texts make the common case, nothing found, fast.
_KINDS: dict[str, tuple[tuple[str, ...], str]] = {
    "api-key": (
        ("sk-", "hf_", "AIza"),
        r"(?<![A-Za-z0-9_-])(?:sk-(?=[A-Za-z_-]{0,40}[0-9])[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{30,}|AIza[A-Za-z0-9_-]{35})",
    ),
    "aws-key": (("AKIA", "ASIA"), r"(?<![A-Za-z0-9])A(?:KI|SI)A[A-Z0-9]{16}(?![A-Za-z0-9])"),
    "github-token": (
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"(?<![A-Za-z0-9_])(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,})",
    ),
    "slack-token": (("xox",), r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    "private-key": (("PRIVATE KEY",), r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY"),
    "bearer-token": (("earer ",), r"(?<![A-Za-z0-9])[Bb]earer +(?=[A-Za-z._~+/-]{0,40}[0-9])[A-Za-z0-9._~+/-]{20,}"),
    "home-directory": (
        ("/home/", "/Users/", ":\\Users\\"),
        r"(?<![A-Za-z0-9_.~-])(?:/home/|/Users/|[A-Za-z]:\\Users\\)[A-Za-z0-9_][A-Za-z0-9_.-]*",
    ),
    "email": (
        ("@",),
        r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@"
        + _RESERVED
        + r"(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9])",
    ),
}  # fmt: skip
KINDS = tuple(_KINDS)
_PATTERNS = {kind: (markers, re.compile(pattern)) for kind, (markers, pattern) in _KINDS.items()}


def kinds_in(text: str) -> list[str]:
    """Return the kinds of secrets that a text seems to hold."""
    return [
        kind
        for kind, (markers, pattern) in _PATTERNS.items()
        if any(marker in text for marker in markers) and pattern.search(text)
    ]


def unescape(text: str) -> str:
    r"""Return JSON text with its escapes undone as far as the search needs it: `\nsk-` must not look like one word."""
    if "\\" not in text:
        return text
    text = text.replace("\\\\", "\0").replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r").replace('\\"', '"')
    return text.replace("\0", "\\")


class SecretScan:
    """Collects the kinds of secrets line by line, so that one refusal names them all; the secrets themselves are never kept."""

    def __init__(self, allow: Sequence[str] = ()) -> None:
        """Set the allowed kinds; UsageError names those that do not exist."""
        unknown = sorted(set(allow) - set(KINDS))
        if unknown:
            raise UsageError(f"allow: no kind {', '.join(unknown)}; the kinds are {', '.join(KINDS)}")
        self._allow = frozenset(allow)
        self._counts: Counter[str] = Counter()
        self._places: list[str] = []

    def scan_line(self, place: str, line: int, text: str) -> None:
        """Search a line of JSON or plain text that is to be published, and note each kind found that is not allowed."""
        for kind in kinds_in(unescape(text)):
            if kind not in self._allow:
                self._counts[kind] += 1
                if len(self._places) < MOST_NAMED:
                    self._places.append(f"{place}, line {line}: {kind}")

    def refuse(self) -> None:
        """Raise a UsageError with file, line and kind of the first findings, if anything was found."""
        if not self._counts:
            return
        more = self._counts.total() - len(self._places)
        counts = ", ".join(f"{count} of kind {kind}" for kind, count in sorted(self._counts.items()))
        raise UsageError(
            f"nothing was packed: it seems to hold what should not be published ({counts}).\n  "
            + "\n  ".join(self._places)
            + (f"\n  and {more} more" if more else "")
            + f"\nWhat is meant to be public is accepted by its kind: --allow {' --allow '.join(sorted(self._counts))}"
        )
