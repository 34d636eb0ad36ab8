"""A process that runs a sandbox is watched from outside: its processor time, whether it lives, its end and its limits."""

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from math import ceil

from agent_envs.base.errors import EnvFault
from agent_envs.tools.sandbox.port import Limits

LINUX = sys.platform == "linux"
KILL = signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM
LEAST_PAUSE, LONG = 0.002, 0.2  # seconds


def out_of_memory_kills() -> int:
    """Count the processes that the system has ended for want of memory since it started; 0 where it does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/vmstat", encoding="ascii") as file:
        return int(file.read().partition("\noom_kill ")[2].split()[0])
    return 0


class Process:
    """A process of this machine. On Linux a pidfd holds it, so that a number that is used again is never meant."""

    def __init__(self, pid: int) -> None:
        """Take hold of it; raises EnvFault where there is no such process any more."""
        self.pid, self._fd, self._cpu = pid, -1, 0.0
        self._lock = threading.Lock()
        if LINUX:
            try:
                self._fd = os.pidfd_open(pid)
            except OSError as error:
                raise EnvFault(f"sandbox: its process is gone ({error.strerror})") from error

    def alive(self) -> bool:
        """Return whether it still runs (a dead one that nobody has asked for its status counts as dead)."""
        return not self.ended(0.0)

    def ended(self, seconds: float) -> bool:
        """Wait up to so many seconds for its end (off Linux: none); return whether it came; a released one has ended."""
        if LINUX:
            if self._fd < 0:
                return True
            poll = select.poll()
            poll.register(self._fd, select.POLLIN)
            return bool(poll.poll(seconds * 1_000))
        try:
            os.kill(self.pid, 0)
        except OSError:
            return True
        return False

    def cpu_seconds(self) -> float:
        """Return the processor time of all its threads; of a dead one, what was last seen.

        Where the system has no such clock of another process (anywhere but on Linux) this is the time of day.
        """
        if not LINUX:
            return time.monotonic()
        with contextlib.suppress(OSError):
            # The clock's number by the kernel's rule (include/linux/posix-timers.h): complement of the pid, 2 = scheduler.
            self._cpu = time.clock_gettime((~self.pid << 3) | 2)
        return self._cpu

    def limit_cpu(self, seconds: float) -> None:
        """Set a kernel limit of so much more processor time (Linux alone), should nobody be left to end the process."""
        if not LINUX:
            return
        import resource  # Unix only

        with contextlib.suppress(OSError):  # it is gone
            most = resource.prlimit(self.pid, resource.RLIMIT_CPU)[1]
            soft = ceil(self.cpu_seconds() + seconds) + 1
            if most == resource.RLIM_INFINITY or soft < most:
                resource.prlimit(self.pid, resource.RLIMIT_CPU, (soft, most))

    def waited_seconds(self) -> float:
        """Return the seconds for which its threads were ready and no processor was free; 0 where the system does not tell."""
        waited = 0
        with contextlib.suppress(OSError, ValueError, IndexError):
            for task in os.listdir(f"/proc/{self.pid}/task"):
                with open(f"/proc/{self.pid}/task/{task}/schedstat", encoding="ascii") as file:
                    waited += int(file.read().split()[1])
        return waited / 1e9

    def send(self, number: int) -> None:
        """Send a signal; a process that is gone gets none."""
        with self._lock, contextlib.suppress(OSError):
            if self._fd >= 0:
                signal.pidfd_send_signal(self._fd, number)
            elif not LINUX:
                os.kill(self.pid, number)

    def close(self) -> None:
        """Release the process's file descriptor."""
        with self._lock:
            self.forget()

    def forget(self) -> None:
        """Drop the process in a forked child, where the thread that held the lock is not."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class Watch:
    """Two limits over one run of a process. `verdict` says why it was killed: cpu, wall or output; empty if it was not.

    The wall limit counts the time in which the process computes, sleeps or waits for something, not the time in which it would
    compute and others have the processors (from its first fifth of a second on): a busy machine is no fault of the code.
    """

    def __init__(self, process: Process, limits: Limits) -> None:
        self.process, self.verdict = process, ""
        self._limits = limits
        process.limit_cpu(limits.cpu_seconds)
        self._cpu, self._wall, self._waited = process.cpu_seconds(), time.monotonic(), -1.0

    def cpu_seconds_used(self) -> float:
        """Return the processor time since it began, in seconds."""
        return max(0.0, self.process.cpu_seconds() - self._cpu)

    def pause(self) -> float:
        """Return after how many seconds a limit can be reached at the earliest; 0 where one is reached now."""
        wall = self._limits.wall_seconds - (time.monotonic() - self._wall)
        if wall <= 0 <= self._waited:
            wall += max(0.0, self.process.waited_seconds() - self._waited)
        cpu = self._limits.cpu_seconds - self.cpu_seconds_used()
        least = min(wall, cpu)
        return max(least, LEAST_PAUSE) if least > 0 else 0.0

    def check(self) -> None:
        """Kill the process if it has passed a limit."""
        if self._waited < 0 and time.monotonic() - self._wall > LONG:  # costs too much for cells that are done at once
            self._waited = self.process.waited_seconds()
        if not self.verdict and self.pause() == 0.0:
            self.end("cpu" if self.cpu_seconds_used() >= self._limits.cpu_seconds else "wall")

    def end(self, verdict: str) -> None:
        """Kill the process and keep the verdict; the first one stays."""
        self.verdict = self.verdict or verdict
        self.process.send(KILL)

    def explain(self) -> tuple[str, str]:
        """Return (status, error) of an ended run: output_limit, timeout by processor time, else (any verdict) by wall time."""
        if self.verdict == "output":
            return "output_limit", f"OutputLimit: more than {self._limits.output_bytes} bytes were printed"
        if self.verdict == "cpu":
            return "timeout", f"Timeout: more than {self._limits.cpu_seconds:g} s of processor time"
        return "timeout", f"Timeout: more than {self._limits.wall_seconds:g} s went by"


class Watchdog:
    """One thread that holds the runs of processes to their limits, for callers that cannot look up themselves."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._watches: list[tuple[float, Watch]] = []
        self._thread: threading.Thread | None = None
        self._wakes = float("inf")

    @contextlib.contextmanager
    def over(self, process: Process, limits: Limits) -> Iterator[Watch]:
        """Yield a watch over the process, which is killed at a limit for as long as the block runs."""
        watch = Watch(process, limits)
        entry = (time.monotonic() + watch.pause(), watch)
        with self._changed:
            self._watches.append(entry)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="sandbox-watchdog", daemon=True)
                self._thread.start()
            if entry[0] < self._wakes:
                self._changed.notify()
        try:
            yield watch
        finally:
            with self._changed:
                self._watches = [other for other in self._watches if other[1] is not watch]

    def _watch(self) -> None:
        """Check each watched run when it is due, and wait until the next is."""
        while True:
            with self._changed:
                now = time.monotonic()
                for number, (due, watch) in enumerate(self._watches):
                    if due <= now:
                        watch.check()
                        later = float("inf") if watch.verdict else now + watch.pause()
                        self._watches[number] = (later, watch)
                self._wakes = min((due for due, _ in self._watches), default=float("inf"))
                self._changed.wait(None if self._wakes == float("inf") else max(self._wakes - now, LEAST_PAUSE))
