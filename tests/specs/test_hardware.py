"""Accelerators: the facts that ship, formats that are widened, links, mistakes."""

import pytest

from jaxsim.specs import HardwareSpec, Link, named_hardware
from jaxsim.specs.hardware import hardware_table

NAMED_IN_ISSUES = (
    "a100-sxm-40g a100-sxm-80g h100-sxm h200-sxm b200-sxm b300-sxm gb200 l40s l4 rtx-4090 rtx-pro-6000 mi300x mi325x "
    "tpu-v5e tpu-v6e"
).split()


def test_the_usual_accelerators_are_known() -> None:
    assert len(hardware_table()) >= 15
    assert set(NAMED_IN_ISSUES) <= set(hardware_table())


@pytest.mark.parametrize("name", sorted(hardware_table()))
def test_facts_are_plausible(name: str) -> None:
    device = named_hardware(name)
    assert device.name == name
    assert 30 < device.bf16_flops_per_s / device.memory_bytes_per_s < 700, "operations per byte where the roofs meet"
    assert 10e9 < device.memory_bytes < 400e9
    assert device.inter_node.bytes_per_s <= device.intra_node.bytes_per_s
    for narrow in (device.fp8_flops_per_s, device.fp4_flops_per_s):
        assert narrow is None or narrow >= device.bf16_flops_per_s, "dense rates double as formats narrow"


@pytest.mark.parametrize("spelling", ["h100", "H100_SXM", "h100-sxm"])
def test_spellings(spelling: str) -> None:
    assert named_hardware(spelling).name == "h100-sxm"


def test_an_unknown_name_lists_what_is_known() -> None:
    with pytest.raises(ValueError, match=r"hardware 'h10' is not known; did you mean .*\? known: .*tpu-v6e"):
        named_hardware("h10")


def test_formats_without_cores_of_their_own_are_widened() -> None:
    a100, h100, b200 = named_hardware("a100"), named_hardware("h100"), named_hardware("b200")
    assert (a100.computes_in("fp8"), h100.computes_in("fp8")) == ("bf16", "fp8")
    assert (h100.computes_in("mxfp4"), b200.computes_in("mxfp4")) == ("bf16", "fp4")
    assert h100.computes_in("int4") == h100.computes_in("fp16") == "bf16"
    assert a100.flops_per_s("fp8") == a100.bf16_flops_per_s
    assert h100.flops_per_s("fp8") == h100.fp8_flops_per_s


def test_a_group_larger_than_a_node_is_bound_by_the_slow_link() -> None:
    h100 = named_hardware("h100")
    assert h100.link(8) == h100.intra_node
    assert h100.link(16) == h100.inter_node


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"bf16_flops_per_s": 0.0}, "bf16_flops_per_s must be a finite number greater than 0, not 0.0"),
        ({"fp8_flops_per_s": -1.0}, "fp8_flops_per_s must be a finite number greater than 0"),
        ({"compute_units": 0}, "compute_units must be 1 or greater, not 0"),
    ],
)
def test_mistakes(changed: dict[str, float], message: str) -> None:
    rates = {"bf16_flops_per_s": 1e12, "memory_bytes_per_s": 1e12, "memory_bytes": 1e9}
    with pytest.raises(ValueError, match=message):
        HardwareSpec(**{**rates, **changed})


def test_a_link_moves_something() -> None:
    with pytest.raises(ValueError, match="bytes_per_s must be a finite number greater than 0, not 0.0"):
        Link(bytes_per_s=0.0, latency_s=0.0)
