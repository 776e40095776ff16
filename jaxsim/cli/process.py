"""Settings of a process that does nothing but simulate. A library leaves them to its user; the command line is one."""

import ctypes
import os

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEEP_BYTES = 1 << 30


def settle() -> None:
    """Prepare this process; to be called before JAX is used. Measured figures are of `benchmarks/bench_reference.py`.

    XLA's thread pool gets one thread (it reads the number of cores from NPROC). jaxsim has a stream of its own on every
    core, and handing kernels to a pool beside them costs more than it saves: 3.7 against 5.3 million requests/s a core.

    Only with one thread are rounds compiled into few kernels (`jaxsim._kernels`).

    Programs start in the thread that asks for them (`jaxsim._loop` sees to that): else that one thread of the pool
    would run those of all cores, one after the other.

    Memory that was freed is kept for the next tile, rather than given back and cleared page by page: 5.9 against 6.6
    million requests/s.
    """
    os.environ.setdefault("NPROC", "1")
    os.environ["JAXSIM_SETTLED"] = "1"
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return  # this is not glibc
    mallopt(_M_MMAP_THRESHOLD, _KEEP_BYTES)
    mallopt(_M_TRIM_THRESHOLD, _KEEP_BYTES)
