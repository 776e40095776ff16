"""Number formats: how many bytes a weight takes, and what the tensor cores compute in."""

from typing import Literal, get_args

Dtype = Literal["fp32", "bf16", "fp16", "fp8", "int8", "fp4", "mxfp4", "int4"]
"""Formats of weights; `fp4` is NVFP4 (a one-byte scale for 16 weights), `mxfp4` has a scale for 32, `int4` as AWQ and
GPTQ write it (a two-byte scale and a half-byte zero for 128)."""

KvDtype = Literal["bf16", "fp16", "fp8", "int8"]
"""Formats of the KV cache."""

DTYPES: tuple[Dtype, ...] = get_args(Dtype)

BYTES: dict[str, float] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "fp4": 0.5 + 1 / 16,
    "mxfp4": 0.5 + 1 / 32,
    "int4": 0.5 + 2.5 / 128,
}
"""Bytes of one number, scales included."""
