"""Properties are held on fewer examples in `make test` than in `make test-heavy`: profiles of hypothesis say on how many."""

from typing import Any

from hypothesis import settings

FULL = 100  # hypothesis' own number: a test that names another one has the same part of it as those that name none


def examples(count: int, **others: Any) -> settings:
    """Return settings with that many examples under the full profile, and the same part of them under another."""
    return settings(max_examples=max(1, count * settings.default.max_examples // FULL), **others)
