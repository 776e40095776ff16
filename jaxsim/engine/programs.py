"""Compiled programs: each is compiled once, and dropped before the operating system refuses to hold more."""

import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from jaxsim._kernels import many_kernels, merges

_MAPPINGS = Path("/proc/self/maps")
_MOST_MAPPINGS = Path("/proc/sys/vm/max_map_count")

_SHARE_OF_MAPPINGS = 0.5
"""Of the memory mappings that Linux allows a process. A structure takes about 250 with what is compiled around its
program, so a process dies of some 260 where 65,530 are allowed; the other half is left for what else compiles."""


class Programs:
    """Compiled programs by what they are specialised to. Shared by all threads; each is compiled once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._compiled: dict[tuple[object, ...], Callable[..., Any]] = {}
        self.compile_seconds = 0.0

    def __len__(self) -> int:
        return len(self._compiled)

    def program(
        self,
        key: tuple[object, ...],
        function: Callable[..., Any],
        args: tuple[Any, ...],
        device: jax.Device,
        wide: bool = False,
    ) -> Callable[..., Any]:
        """`function` compiled for `args`, of which the first is donated; `key` tells it from all others. `wide`: with
        the widest vectors there are."""
        with self._lock:
            if (*key, device) not in self._compiled:
                if _mappings_run_out():
                    self.clear()
                start = time.perf_counter()
                self._compiled[*key, device] = _compiled(function, args, device, wide)
                self.compile_seconds += time.perf_counter() - start
            return self._compiled[*key, device]

    def has(self, key: tuple[object, ...], device: jax.Device) -> bool:
        """Whether `program` would not have to compile."""
        return (*key, device) in self._compiled

    def clear(self) -> None:
        """Drop every program, and what JAX has compiled besides; those that run now live until they have ended."""
        self._compiled.clear()
        jax.clear_caches()


PROGRAMS = Programs()


def _compiled(
    function: Callable[..., Any], args: tuple[Any, ...], device: jax.Device, wide: bool
) -> Callable[..., Any]:
    def attempt() -> Callable[..., Any]:
        def program(*args: Any) -> Any:  # not `function`, whose trace JAX would find again
            return function(*args)

        jitted = jax.jit(program, donate_argnums=0, compiler_options=_compiler_options(device, wide))
        return jitted.lower(*args).compile()

    try:
        return attempt()
    except jax.errors.JaxRuntimeError as error:
        if not merges(device.platform):
            raise
        with many_kernels():
            program = attempt()
        warnings.warn(
            f"XLA cannot compile this in few kernels, so it runs slower: {error}", RuntimeWarning, stacklevel=2
        )
        return program


def _mappings_run_out() -> bool:
    """Whether this process has used its share of the memory mappings; beyond all of them, LLVM ends the process."""
    try:
        with _MAPPINGS.open("rb") as mappings:
            return sum(1 for _ in mappings) > _SHARE_OF_MAPPINGS * int(_MOST_MAPPINGS.read_text())
    except OSError:  # not Linux: no such limit
        return False


def _compiler_options(device: jax.Device, wide: bool) -> dict[str, bool | int | str]:
    if device.platform != "cpu":
        return {}
    # a kernel of some hundred lanes is not worth sharing between threads; wider vectors: 25 -> 20 ns a round of
    # streams, but LLVM has crashed on them in a round of fleets ("Cannot select ... SUBV_BROADCAST_LOAD")
    options: dict[str, bool | int | str] = {"xla_cpu_multi_thread_eigen": False}
    if merges(device.platform):  # a sum handed to YNNPACK would be a kernel of its own, which a larger one cannot hold
        options["xla_cpu_experimental_ynn_fusion_type"] = ""
    return options | ({"xla_cpu_prefer_vector_width": 512} if wide else {})
