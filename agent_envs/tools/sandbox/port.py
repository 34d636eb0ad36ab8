"""The port to code sandboxes says what is asked of one, what it answers, and what record of a session outlives the process.

A session is a Python interpreter that keeps its names from cell to cell. Everything a policy may see of a run is in
`ExecResult`; it holds no time, process number, path of this machine or address. The state of a session is the list of the cells
that ran in it, because the same cells in the same backend and version give the same state: so snapshots carry cells, never
memory, and a stranger's snapshot can do no more than run code in the sandbox.
"""

import re
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from agent_envs.base.arguments import whole_number
from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import digest, encode_state, state_type

STATUSES = ("ok", "error", "timeout", "memory", "output_limit", "killed")
LASTING = ("ok", "error")  # the others leave a session as it was before the cell
# The one result after which a session has no names at all; a cell cannot give it, for `killed` is judged outside.
SESSION_LOST = (
    "Killed: the session had to be brought back, and code that had run before came to no end when it ran again; the session "
    "begins anew, without names"
)
MAX_ERROR_BYTES = 4_096
MAX_SECONDS = 3_600
# What a spec may ask for besides: import name -> distribution, with all that each needs and the sandbox lacks.
MORE_PACKAGES = {
    "math-verify": {
        "math_verify": "math-verify", "latex2sympy2_extended": "latex2sympy2-extended", "antlr4": "antlr4-python3-runtime",
    },
}  # fmt: skip
_ADDRESS = re.compile(r"\bat 0x[0-9A-Fa-f]+")


@state_type
@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a cell. `memory_mb` and `recursion` belong to the session; the others may differ from cell to cell.

    Attributes:
        cpu_seconds: processor time of one cell, the limit that is meant to bind.
        wall_seconds: a backstop for cells that wait without computing; must be above `cpu_seconds`.
        memory_mb: of the interpreter's process; None is the backend's default (monty 256, bwrap 1,024 of address space).
        output_bytes: of what is printed, as UTF-8; and of the last expression's value, which is cut there.
        code_characters: longer cells are refused and do not run.
        recursion: depth of calls.
    """

    cpu_seconds: float = 2.0
    wall_seconds: float = 10.0
    memory_mb: int | None = None
    output_bytes: int = 65_536
    code_characters: int = 32_768
    recursion: int = 1_000

    def __post_init__(self) -> None:
        """Refuse limits that no sandbox can keep, with a UsageError that names the limit."""
        seconds = (self.cpu_seconds, self.wall_seconds)
        if not all(type(value) in (int, float) and 0 < value <= MAX_SECONDS for value in seconds):
            raise UsageError(
                f"Limits: cpu_seconds and wall_seconds are above 0 and at most {MAX_SECONDS}, not {seconds}"
            )
        if self.wall_seconds <= self.cpu_seconds:
            raise UsageError(
                f"Limits(cpu_seconds={self.cpu_seconds:g}, wall_seconds={self.wall_seconds:g}): the wall limit is a "
                "backstop and must be above the limit of processor time"
            )
        for name, least, most in (("output_bytes", 1, 2**24), ("code_characters", 1, 2**20), ("recursion", 50, 10_000)):
            whole_number("Limits", name, getattr(self, name), least, most)
        if self.memory_mb is not None:
            whole_number("Limits", "memory_mb", self.memory_mb, 16, 2**20, otherwise="None")


@state_type
@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """The settings of a sandbox: everything that moves what code gives in it.

    Attributes:
        backend: `monty` or `bwrap`.
        limits: of every cell, unless `run` is given others.
        seed: of `random` (and of numpy's generator and of the system's entropy, in `bwrap`).
        preload: `bwrap` imports numpy and sympy once, before sessions begin; moves time only.
        packages: names in `MORE_PACKAGES` that code in `bwrap` may import besides; preloaded likewise.
        version: of the backend; filled when a session opens. A version given here must be the one that is installed.
    """

    backend: str = "monty"
    limits: Limits = Limits()
    seed: int = 0
    preload: bool = True
    packages: tuple[str, ...] = ()
    version: str = ""


@state_type
@dataclass(frozen=True, slots=True)
class ExecResult:
    """The result of a cell.

    Attributes:
        status: `ok`; `error`, the code raised; `timeout`; `memory`; `output_limit`, it printed more than it may; `killed`, the
            code ended its own interpreter. After the last four the session is as it was before the cell (but see
            `session_lost`).
        stdout: what was printed, standard error included, cut at the limit.
        value: `repr` of the last expression, empty for None or where the cell does not end in an expression.
        error: type and message of what was raised, or what limit was passed; at most 4,096 bytes.
        truncated: some text was cut.
        cpu_ms: processor time; of this machine, so never shown to a policy and no part of equality.
    """

    status: str
    stdout: str = ""
    value: str = ""
    error: str = ""
    truncated: bool = False
    cpu_ms: float = field(default=0.0, compare=False)

    @property
    def session_lost(self) -> bool:
        """Whether the cell was not run, because earlier ones came to no end when they ran again: the session begins anew."""
        return (self.status, self.error) == ("killed", SESSION_LOST)

    @property
    def digest(self) -> str:
        """The sha256 of all that is part of equality."""
        return digest([self.status, self.stdout, self.value, self.error, self.truncated])

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object, as recordings keep it."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> "ExecResult":
        """Read `to_json`; raises ValueError where it has another form; recordings come from strangers too."""
        if not isinstance(value, dict) or set(value) != set(cls.__slots__):
            raise ValueError(f"a sandbox result has the fields {', '.join(cls.__slots__)}")
        texts = [value[name] for name in ("status", "stdout", "value", "error")]
        cpu = value["cpu_ms"]
        sound = all(isinstance(text, str) for text in texts) and isinstance(value["truncated"], bool)
        if not sound or texts[0] not in STATUSES or isinstance(cpu, bool) or not isinstance(cpu, int | float):
            raise ValueError("a field of a sandbox result is of another type, or the status is unknown")
        return cls(**value)


@state_type
@dataclass(frozen=True, slots=True)
class SandboxCell:
    """A cell that changed a session: its code, its limits if not the session's, and the digest of its result."""

    code: str
    limits: Limits | None
    result: str


@state_type
@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """A moment of a session, readable in any process with the same backend; `sha256` is over all the rest."""

    spec: SandboxSpec
    cells: tuple[SandboxCell, ...]
    sha256: str

    @classmethod
    def of(cls, spec: SandboxSpec, cells: tuple[SandboxCell, ...]) -> "SessionSnapshot":
        """Return the snapshot of a session of the backend that `spec` names, which ran `cells` in their order."""
        return cls(spec, cells, _snapshot_digest(spec, cells))

    def check(self) -> None:
        """Raise UsageError for a snapshot that does not match its digest, before anything of it is run.

        Raises UsageError: it does not match its digest.
        """
        try:
            sound = self.sha256 == _snapshot_digest(self.spec, self.cells)
            sound = sound and isinstance(self.spec, SandboxSpec) and all(map(_sound_cell, self.cells))
        except (TypeError, ValueError):
            sound = False
        if not sound:
            raise UsageError("the sandbox snapshot is damaged: its content does not match its sha256")


def _sound_cell(cell: Any) -> bool:
    """Return whether a cell of a stored snapshot has code, limits and result of the right types."""
    kinds = isinstance(cell, SandboxCell) and isinstance(cell.limits, Limits | None) and isinstance(cell.result, str)
    return kinds and isinstance(cell.code, str)


def _snapshot_digest(spec: SandboxSpec, cells: tuple[SandboxCell, ...]) -> str:
    """Return the digest of a session's spec and cells."""
    return digest(["agent-envs/sandbox-snapshot@1", encode_state(spec), encode_state(cells)])


def refused(code: str, limits: Limits) -> ExecResult | None:
    """Return an `error` result for a cell that is too long or holds null bytes or lone surrogates; None if it may run."""
    if len(code) > limits.code_characters:
        return ExecResult("error", error=f"SyntaxError: the code is longer than {limits.code_characters} characters")
    if "\0" in code:
        return ExecResult("error", error="SyntaxError: source code cannot contain null bytes")
    try:
        code.encode()
    except UnicodeEncodeError:
        return ExecResult("error", error="SyntaxError: the code holds half of a surrogate pair")
    return None


def clean_result(result: ExecResult, limits: Limits) -> ExecResult:
    """Return a result with addresses replaced, texts cut to their limits, and one text for the lack of memory."""
    if result.status == "memory":
        result = replace(result, value="", error=f"MemoryError: more than {limits.memory_mb} MB of memory")
    stdout, more = _cut_and_mask(result.stdout, limits.output_bytes)
    value, wider = _cut_and_mask(result.value, limits.output_bytes)
    error, longer = _cut_and_mask(result.error, min(MAX_ERROR_BYTES, limits.output_bytes))
    truncated = result.truncated or more or wider or longer
    return replace(result, stdout=stdout, value=value, error=error, truncated=truncated)


def _cut_and_mask(text: str, most: int) -> tuple[str, bool]:
    """Return text cut to at most so many bytes, with memory addresses masked, and whether it was cut."""
    raw = text.encode("utf-8", "replace")
    cut = raw[:most].decode("utf-8", "ignore")
    return _ADDRESS.sub("at 0x...", cut), len(raw) > most
