"""What share of the peak rates kernels reach, and what a call costs: fitted per hardware and kind of operator.

The table is `operators/efficiency.csv`. Rows for `h100-sxm` and `a100-sxm-80g` were fitted by
`benchmarks/fit_efficiency.py` to step times that are sums of measured kernels (NVIDIA AIConfigurator 0.12, Apache-2.0:
Llama 3.1 8B and 70B, Mixtral 8x7B, vLLM), those for `rtx-pro-6000` by `benchmarks/fit_kernel_profile.py` to a kernel
profile of a vLLM 0.19 server (LLMServingSim, MIT); `benchmarks/LATENCY.md` has the commands and the errors. Hardware of
the same architecture takes the rows of its relative, and what is not measured the `generic` ones, between the others.
"""

import csv
import functools
from collections.abc import Mapping
from dataclasses import fields, replace
from importlib.resources import files

from jaxsim._component import check, check_not_negative, check_positive, component
from jaxsim.operators.base import Operator, Rates
from jaxsim.specs.hardware import HardwareSpec, Link


@component
class KernelEfficiency:
    """A kind of operator takes `max(FLOPs / (compute * peak), bytes / (memory * bandwidth)) + overhead_s`.

    Attributes:
        compute: share of the peak rate that is reached, in (0, 1].
        memory: share of the bandwidth (of the link for collectives) that is reached; more than 1 where data stay in
            cache.
        overhead_s: seconds that a call takes beside that.
    """

    compute: float = 1.0
    memory: float = 1.0
    overhead_s: float = 0.0

    def __post_init__(self) -> None:
        check(self, "compute", lambda value: 0 < value <= 1, "a share in (0, 1]")
        check_positive(self, "memory")
        check_not_negative(self, "overhead_s")


@component
class Efficiency:
    """Efficiencies by kind of operator. What is null is as fitted for the hardware.

    Attributes:
        gemm: multiplications with weights in 16 bits.
        narrow_gemm: multiplications in 8 or 4 bits.
        experts: the routed experts of a mixture-of-experts layer.
        prefill_attention: attention of prompts.
        decode_attention: attention of decodes.
        elementwise: norms, activations, rotary embedding, embedding.
        collective: messages between devices.
        prefill_tile_rows: query tokens of one tile of the prefill attention kernel.
        mixed_layer_s: seconds a layer takes longer in an iteration with prompts and decodes.
    """

    gemm: KernelEfficiency | None = None
    narrow_gemm: KernelEfficiency | None = None
    experts: KernelEfficiency | None = None
    prefill_attention: KernelEfficiency | None = None
    decode_attention: KernelEfficiency | None = None
    elementwise: KernelEfficiency | None = None
    collective: KernelEfficiency | None = None
    prefill_tile_rows: float | None = None
    mixed_layer_s: float | None = None

    def __post_init__(self) -> None:
        check_positive(self, "prefill_tile_rows")
        check_not_negative(self, "mixed_layer_s")

    def filled(self, other: "Efficiency") -> "Efficiency":
        """This one, with what is null taken from `other`."""
        missing = {
            field.name: getattr(other, field.name) for field in fields(self) if getattr(self, field.name) is None
        }
        return replace(self, **missing)

    def rates(self, operator: Operator, hardware: HardwareSpec, link: Link | None = None) -> Rates:
        """What `hardware` reaches on an operator; `link`, if given, is in place of the hardware's own links."""
        if operator.kind == "fixed":
            return Rates(0.0, 0.0, operator.overhead_s)
        kernel = getattr(self, operator.kind)
        if operator.kind == "collective":
            link = link or hardware.link(operator.devices)
            per_byte = 1 / (kernel.memory * link.bytes_per_s)
            return Rates(0.0, per_byte, kernel.overhead_s + operator.hops * link.latency_s + operator.overhead_s)
        return Rates(
            1 / (kernel.compute * hardware.flops_per_s(operator.dtype)),
            1 / (kernel.memory * hardware.memory_bytes_per_s),
            kernel.overhead_s + operator.overhead_s,
        )


_RELATIVES = {
    "a100-sxm-40g": "a100-sxm-80g",
    "a100-pcie-80g": "a100-sxm-80g",
    "a30": "a100-sxm-80g",
    "h100-pcie": "h100-sxm",
    "h100-nvl": "h100-sxm",
    "h20": "h100-sxm",
    "h200-sxm": "h100-sxm",
    "gh200": "h100-sxm",
    "rtx-5090": "rtx-pro-6000",
}


@functools.cache
def _table() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """Rows of the table by hardware and kind."""
    text = (files("jaxsim.operators") / "efficiency.csv").read_text(encoding="utf-8")
    table: dict[str, dict[str, Mapping[str, str]]] = {}
    for row in csv.DictReader(text.splitlines()):
        table.setdefault(row["hardware"], {})[row["kind"]] = row
    return table


def fitted_for(hardware: str) -> str:
    """The row of the table that hardware of this name takes."""
    name = _RELATIVES.get(hardware, hardware)
    return name if name in _table() else "generic"


def fitted_efficiency(hardware: str) -> Efficiency:
    """The efficiencies of hardware of this name."""
    rows = {**_table()["generic"], **_table()[fitted_for(hardware)]}
    mixed = rows.pop("mixed")
    kernels = {
        kind: KernelEfficiency(
            compute=float(row["compute"] or 1),
            memory=float(row["memory"] or 1),
            overhead_s=float(row["overhead_us"]) * 1e-6,
        )
        for kind, row in rows.items()
    }
    return Efficiency(
        **kernels,
        prefill_tile_rows=float(rows["prefill_attention"]["tile_rows"]),
        mixed_layer_s=float(mixed["overhead_us"]) * 1e-6,
    )
