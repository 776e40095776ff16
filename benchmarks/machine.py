"""What benchmarks share: the machine in words, pinning, and timing on a machine that others use, too."""

import importlib.metadata
import os
import platform
import time
from pathlib import Path
from types import TracebackType


def pin(cores: int) -> None:
    """Keep this process to the first cores it may use; to be called before JAX is used."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


def describe() -> str:
    """One line: processor, cores in use, versions."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        cpu = names[0] if names else cpu
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("jax", "numpy", "numba"))
    cores = f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} cores"
    return f"{cpu}, {cores}; Python {platform.python_version()}, {versions}"


class Timer:
    """The best of several repetitions, each a `with` block: others on the machine can only slow it down.

    Attributes:
        best_s: seconds by the clock.
        best_cpu_s: seconds of processor time of all threads; on one core what a quiet machine would take.
    """

    def __init__(self) -> None:
        self.best_s = self.best_cpu_s = float("inf")

    def __enter__(self) -> None:
        self._started = time.perf_counter(), time.process_time()

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        clock, cpu = self._started
        self.best_s = min(self.best_s, time.perf_counter() - clock)
        self.best_cpu_s = min(self.best_cpu_s, time.process_time() - cpu)
