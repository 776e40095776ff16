"""What a lane records beside its request columns: inter-token latencies and KV residency, credited per stretch.

Inter-token gaps go into bins whose edges are the float32 numbers with 6 mantissa bits: 64 bins per octave, each at most
1/64 wide relative to its lower edge. A stretch is credited at its mean gap and is cut where its gaps would grow by more
than `STRETCH_SPREAD`, so a gap is counted at most one bin and half that spread from its true value: read back as the
middle of its bin, a recorded gap is within 1.6 % of the true one (half a bin 0.8 %, half a spread 0.8 %).
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_MANTISSA_BITS = 6
_FIRST_OCTAVE, _LAST_OCTAVE = -20, 14
"""Gaps from 2**-20 s (1 microsecond) to 2**14 s (4.5 hours); outside, the first or last bin."""

ITL_BINS = (_LAST_OCTAVE - _FIRST_OCTAVE) << _MANTISSA_BITS
STRETCH_SPREAD = 2.0**-6

_FLOAT32_MANTISSA_BITS, _FLOAT32_BIAS = 23, 127
_SHIFT = _FLOAT32_MANTISSA_BITS - _MANTISSA_BITS
_FIRST_CODE = (_FLOAT32_BIAS + _FIRST_OCTAVE) << _MANTISSA_BITS


def itl_bin_edges() -> np.ndarray:
    """Edges of the inter-token latency bins in seconds, float64 `[ITL_BINS + 1]`."""
    octave, step = np.divmod(np.arange(ITL_BINS + 1), 1 << _MANTISSA_BITS)
    return np.ldexp(1.0 + step / (1 << _MANTISSA_BITS), _FIRST_OCTAVE + octave)


def itl_bin(gap_s: jax.Array) -> jax.Array:
    """Bin of a gap in seconds: its leading bits as a float32, a tenth of the cost of a logarithm."""
    bits = lax.bitcast_convert_type(gap_s.astype(jnp.float32), jnp.int32)
    code = lax.shift_right_logical(bits, jnp.int32(_SHIFT)) - _FIRST_CODE
    return lax.clamp(jnp.int32(0), code, jnp.int32(ITL_BINS - 1))
