"""Operators that touch every element once: bound by memory."""

from jaxsim.operators.base import Operator
from jaxsim.specs.dtypes import BYTES


def elementwise(name: str, elements: float, *, count: float, kv_bytes: float = 0.0, rows: str = "tokens") -> Operator:
    """Reads and writes of `elements` numbers in 16 bits a row (and `kv_bytes` to the KV cache); no operations counted.

    Args:
        name: what tables call it.
        elements: numbers read or written a row on one device.
        count: calls in one iteration.
        kv_bytes: bytes written into the KV cache a row.
        rows: the quantity that counts rows.
    """
    return Operator(name, "elementwise", count, {}, {rows: elements * BYTES["bf16"] + kv_bytes})


def norm(name: str, hidden: int, *, count: float, rows: str = "tokens") -> Operator:
    """RMS norm with the residual added: two tensors read, two written."""
    return elementwise(name, 4.0 * hidden, count=count, rows=rows)


def gate(name: str, inner: float, *, count: float) -> Operator:
    """Activation of one half times the other: two tensors read, one written."""
    return elementwise(name, 3.0 * inner, count=count)
