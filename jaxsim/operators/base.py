"""L1: one operator of an iteration, and the roofline that prices it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from jaxsim.operators.batch import Quantities
from jaxsim.operators.lines import Line, larger

Amounts = Mapping[str, float]
"""A linear form: how much per unit of each quantity of the batch (`jaxsim.operators.batch`)."""

Kind = Literal[
    "gemm", "narrow_gemm", "experts", "prefill_attention", "decode_attention", "elementwise", "collective", "fixed"
]
"""Kinds of operators. Each has an efficiency of its own (`fixed` is time that no kernel explains); `narrow_gemm` is a
multiplication in 8 or 4 bits."""


@dataclass(frozen=True)
class Operator:
    """Calls of one kernel on one device.

    Attributes:
        name: what tables call it.
        kind: whose efficiency it has.
        dtype: format its operands are multiplied in, which names the peak rate.
        count: calls in one iteration.
        flops: floating-point operations of one call; a multiplication and an addition are two.
        bytes: bytes that one call moves from and to memory, or over the link for a collective.
        busy_flops: operations for whose time the device is busy, where tiles or waves are not full.
        runs: quantity that is 1 when the operator runs at all.
        devices: neighbouring devices that a collective spans, which names the link.
        hops: hops of a message over the link, each of which takes the link's latency.
        overhead_s: seconds of one call beside what its kind's efficiency says.
    """

    name: str
    kind: Kind
    count: float
    flops: Amounts
    bytes: Amounts
    dtype: str = "bf16"
    busy_flops: Amounts | None = None
    runs: str = "one"
    devices: int = 1
    hops: float = 0.0
    overhead_s: float = 0.0


class Rates(NamedTuple):
    """What a device achieves on one operator."""

    seconds_per_flop: float
    seconds_per_byte: float
    overhead_s: float
    """Time of a call without work."""


def amount(form: Amounts, found: Quantities) -> Line:
    """The value of a linear form for a batch."""
    total = Line(0.0)
    for quantity, per_unit in form.items():
        total = total + found[quantity] * per_unit
    return total


def seconds(operator: Operator, rates: Rates, found: Quantities) -> Line:
    """Seconds of all calls: `count * (max(FLOPs / (eta_c * peak), bytes / (eta_m * bandwidth)) + t0)`."""
    compute = amount(operator.busy_flops or operator.flops, found) * rates.seconds_per_flop
    memory = amount(operator.bytes, found) * rates.seconds_per_byte
    overhead = found[operator.runs] * rates.overhead_s
    return (larger(compute, memory) + overhead) * operator.count
