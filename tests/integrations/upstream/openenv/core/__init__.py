from typing import Generic, TypeVar

A, B, C = TypeVar("A"), TypeVar("B"), TypeVar("C")


class EnvClient(Generic[A, B, C]):
    def _step_payload(self, action): ...

    def _parse_result(self, payload): ...

    def _parse_state(self, payload): ...
