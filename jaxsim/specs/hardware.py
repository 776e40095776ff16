"""Accelerators: dense peak rates, memory and links."""

import functools
from collections.abc import Mapping

from jaxsim._component import check, check_not_negative, check_positive, component
from jaxsim.specs._facts import read_table, unknown


@component
class Link:
    """What one device can send to others.

    Measured numbers belong here, not nominal ones: PCIe pairs reach 16-19 GB/s where 32 or 64 are promised.

    Attributes:
        bytes_per_s: bytes a second that one device sends in one direction.
        latency_s: time of one hop of a message without content, seconds.
    """

    bytes_per_s: float
    latency_s: float

    def __post_init__(self) -> None:
        check_positive(self, "bytes_per_s")
        check_not_negative(self, "latency_s")


@component
class HardwareSpec:
    """One accelerator and the node it sits in. Rates are dense peaks (no sparsity), as the vendor states them.

    Attributes:
        name: what it is called; efficiencies that were fitted are looked up by it.
        bf16_flops_per_s: floating-point operations a second in 16-bit formats.
        fp8_flops_per_s: the same in 8-bit floating point; null where weights in it are computed in 16 bits.
        int8_flops_per_s: operations a second in 8-bit integers; null as above.
        fp4_flops_per_s: the same in 4-bit floating point; null as above.
        memory_bytes_per_s: bandwidth of the device memory.
        memory_bytes: device memory that a driver reports.
        compute_units: processors that share the tiles of a kernel (streaming multiprocessors, compute units).
        intra_node: link to the devices of the same node.
        inter_node: link to the devices of other nodes, per device.
        devices_per_node: devices that share the fast link.
    """

    name: str = "custom"
    bf16_flops_per_s: float
    fp8_flops_per_s: float | None = None
    int8_flops_per_s: float | None = None
    fp4_flops_per_s: float | None = None
    memory_bytes_per_s: float
    memory_bytes: float
    compute_units: int = 1
    intra_node: Link = Link(bytes_per_s=32e9, latency_s=5e-6)
    inter_node: Link = Link(bytes_per_s=12.5e9, latency_s=1e-5)
    devices_per_node: int = 8

    def __post_init__(self) -> None:
        check_positive(
            self,
            "bf16_flops_per_s",
            "fp8_flops_per_s",
            "int8_flops_per_s",
            "fp4_flops_per_s",
            "memory_bytes_per_s",
            "memory_bytes",
        )
        for field in ("compute_units", "devices_per_node"):
            check(self, field, lambda value: value >= 1, "1 or greater")

    def computes_in(self, dtype: str) -> str:
        """The format in which weights of `dtype` are multiplied: `bf16`, `fp8`, `int8` or `fp4`.

        Formats without tensor cores of their own are widened to 16 bits in the kernel, as weight-only kernels do.
        """
        format_ = "fp4" if dtype == "mxfp4" else dtype
        own = {"fp8": self.fp8_flops_per_s, "int8": self.int8_flops_per_s, "fp4": self.fp4_flops_per_s}
        return format_ if own.get(format_) else "bf16"

    def flops_per_s(self, dtype: str) -> float:
        """Dense peak rate for weights of `dtype`."""
        return float(getattr(self, f"{self.computes_in(dtype)}_flops_per_s"))

    def link(self, devices: int) -> Link:
        """The link that a group of `devices` neighbouring devices is bound by."""
        return self.intra_node if devices <= self.devices_per_node else self.inter_node


@functools.cache
def hardware_table() -> Mapping[str, HardwareSpec]:
    """The accelerators that jaxsim knows, by name. Sources and conflicts: `specs/facts/hardware.csv`."""

    def rate(row: Mapping[str, str], column: str) -> float | None:
        return float(row[column]) * 1e12 if column in row else None

    def link(row: Mapping[str, str], reach: str) -> Link:
        return Link(
            bytes_per_s=float(row[f"{reach}_gb_per_s"]) * 1e9, latency_s=float(row[f"{reach}_latency_us"]) * 1e-6
        )

    return {
        row["name"]: HardwareSpec(
            name=row["name"],
            bf16_flops_per_s=float(row["bf16_tflops"]) * 1e12,
            fp8_flops_per_s=rate(row, "fp8_tflops"),
            int8_flops_per_s=rate(row, "int8_tops"),
            fp4_flops_per_s=rate(row, "fp4_tflops"),
            memory_bytes_per_s=float(row["memory_gb_per_s"]) * 1e9,
            memory_bytes=float(row["memory_mib"]) * 2**20,
            compute_units=int(row["compute_units"]),
            intra_node=link(row, "intra_node"),
            inter_node=link(row, "inter_node"),
            devices_per_node=int(row["devices_per_node"]),
        )
        for row in read_table("hardware")
    }


_ALIASES = {
    "h100": "h100-sxm",
    "h200": "h200-sxm",
    "b200": "b200-sxm",
    "b300": "b300-sxm",
    "a100": "a100-sxm-80g",
    "a100-80g": "a100-sxm-80g",
    "a100-sxm": "a100-sxm-80g",
    "a100-40g": "a100-sxm-40g",
    "a100-pcie": "a100-pcie-80g",
    "h100-sxm-80g": "h100-sxm",
    "rtx-pro-6000-server": "rtx-pro-6000",
    "v100": "v100-sxm",
}


def named_hardware(name: str) -> HardwareSpec:
    """The accelerator called `name`, such as `h100-sxm`; `h100`, `H100_SXM` and the like mean the usual variant.

    Raises:
        ValueError: there is none; the message lists those there are.
    """
    known = hardware_table()
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
    wanted = _ALIASES.get(wanted, wanted)
    if wanted not in known:
        raise unknown("hardware", name, known)
    return known[wanted]
