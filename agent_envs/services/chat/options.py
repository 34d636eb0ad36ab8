"""`ChatOptions` sets a chat model up, beside what each request says."""

from dataclasses import asdict, dataclass, field
from typing import Any

from agent_envs.base.arguments import number, whole_number
from agent_envs.base.errors import UsageError


@dataclass(frozen=True)
class ChatOptions:
    """Settings of a model.

    Attributes:
        temperature: where a request has none.
        max_tokens: in place of every request's.
        reasoning_effort: `low`, `medium`, `high`, ... as the service has it.
        extra: merged into the body of every request; a field that is None here is not sent at all.
    """

    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    reasoning_effort: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the values; raises UsageError where one is of the wrong type or out of its range."""
        for name, value, high in (("temperature", self.temperature, 2), ("top_p", self.top_p, 1)):
            if value is not None:
                number("chat model", name, value, 0, high)
        if self.max_tokens is not None:
            whole_number("chat model", "max_tokens", self.max_tokens, 1, 10_000_000)
        if self.reasoning_effort is not None and not isinstance(self.reasoning_effort, str):
            raise UsageError(f"chat model: reasoning_effort={self.reasoning_effort!r}; give a word, such as low")
        if not isinstance(self.extra, dict) or not all(isinstance(name, str) for name in self.extra):
            raise UsageError(f"chat model: extra={self.extra!r}; give a JSON object of request fields")

    @property
    def settings(self) -> dict[str, Any]:
        """What differs from the defaults, as JSON."""
        return {name: value for name, value in asdict(self).items() if value not in (None, {})}
