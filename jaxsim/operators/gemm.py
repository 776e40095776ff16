"""Matrix multiplications with weights."""

from jaxsim.operators.base import Amounts, Kind, Operator
from jaxsim.specs.dtypes import BYTES


def gemm(
    name: str,
    width_in: float,
    width_out: float,
    *,
    weights: str,
    computes_in: str,
    rows: str = "tokens",
    count: float = 1.0,
) -> Operator:
    """`[rows, in] @ [in, out]`: 2 in out operations a row; the weights are read once, each row once read and written.

    Args:
        name: what tables call it.
        width_in: columns of the input on one device.
        width_out: columns of the output on one device.
        weights: format of the weights in memory.
        computes_in: format of the multiplication; inputs are in it, outputs in 16 bits.
        rows: the quantity that counts rows.
        count: calls in one iteration.
    """
    moved: Amounts = {
        "one": width_in * width_out * BYTES[weights],
        rows: width_in * BYTES[computes_in] + width_out * BYTES["bf16"],
    }
    kind: Kind = "gemm" if computes_in in ("bf16", "fp16", "fp32") else "narrow_gemm"
    return Operator(name, kind, count, {rows: 2.0 * width_in * width_out}, moved, dtype=computes_in)
