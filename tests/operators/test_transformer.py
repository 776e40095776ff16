"""The operators of a whole model: all weights are used once, splits add up, messages are there where devices are."""

import pytest

from jaxsim.latency.roofline import Roofline
from jaxsim.operators.base import amount
from jaxsim.specs import named_model
from jaxsim.specs.dtypes import BYTES
from tests.operators.batches import terms

GEMMS = ("gemm", "narrow_gemm", "experts")


def totals(clock: Roofline, kinds: tuple[str, ...] = GEMMS, **batch: object) -> tuple[float, float]:
    """Operations and bytes of all operators of these kinds."""
    found = clock.measure(terms(**batch))
    picked = [operator for operator in clock.operators if operator.kind in kinds]
    flops = sum(operator.count * amount(operator.flops, found).first for operator in picked)
    return float(flops), float(sum(operator.count * amount(operator.bytes, found).first for operator in picked))


@pytest.mark.parametrize(
    "name", ["llama-3.1-8b", "qwen3-32b", "gemma-2-9b", "mixtral-8x7b", "gpt-oss-120b", "deepseek-v3"]
)
def test_a_token_is_multiplied_with_every_active_weight_once(name: str) -> None:
    spec = named_model(name)
    flops, _ = totals(Roofline(model=name, hardware="h100"), decodes=[100])
    norms, lookup = (2 * spec.layers + 1) * spec.hidden, spec.vocab * spec.hidden
    unused = norms + (0 if spec.tied_embeddings else lookup)
    assert flops == pytest.approx(2 * (spec.active_parameters - unused), rel=1e-12)


@pytest.mark.parametrize(("name", "dtype"), [("llama-3.1-8b", "bf16"), ("qwen3-32b", "fp8"), ("mixtral-8x7b", "int4")])
def test_a_large_batch_reads_all_weights_once(name: str, dtype: str) -> None:
    spec = named_model(name)
    clock = Roofline(model=name, hardware="h100", dtype=dtype)
    read = 0.0
    found = clock.measure(terms(chunks=[(100_000, 0)]))
    for operator in clock.operators:
        if operator.kind in GEMMS:
            weights = {key: value for key, value in operator.bytes.items() if key in ("one", "experts_touched")}
            read += operator.count * float(amount(weights, found).first)
    wide = (spec.moe_layers * spec.hidden * spec.experts + spec.vocab * spec.hidden) * 2
    assert read == pytest.approx((spec.dense_parameters + spec.routed_parameters) * BYTES[dtype] + wide)


@pytest.mark.parametrize("name", ["llama-3.1-70b", "mixtral-8x7b"])
def test_devices_share_the_work(name: str) -> None:
    batch = {"decodes": [100] * 7, "chunks": [(50, 10)]}
    kinds = (*GEMMS, "prefill_attention", "decode_attention")
    whole = totals(Roofline(model=name, hardware="h100"), kinds, **batch)[0]
    quarter = totals(Roofline(model=name, hardware="h100", tensor_parallel=4), kinds, **batch)[0]
    router = 2 * 57 * 32 * 4096 * 8 if name.startswith("mixtral") else 0  # every device routes all tokens
    assert 4 * (quarter - router) == pytest.approx(whole - router)


def names(clock: Roofline) -> list[str]:
    return [operator.name for operator in clock.operators if operator.kind == "collective"]


def test_messages() -> None:
    assert names(Roofline(model="llama-3.1-8b", hardware="h100")) == []
    assert names(Roofline(model="llama-3.1-8b", hardware="h100", tensor_parallel=2)) == ["all-reduce", "logits"]
    assert names(Roofline(model="llama-3.1-8b", hardware="h100", pipeline_parallel=4)) == ["between stages"]
    ranks = Roofline(model="deepseek-v3", hardware="h100", data_parallel=8, expert_parallel=8)
    assert names(ranks) == ["dispatch", "combine"]


def test_messages_between_nodes_take_the_slow_link() -> None:
    eight = Roofline(model="llama-3.1-405b", hardware="h100", tensor_parallel=8)
    sixteen = Roofline(model="llama-3.1-405b", hardware="h100", tensor_parallel=16)
    reduce = {c.tensor_parallel: next(o for o in c.operators if o.name == "all-reduce") for c in (eight, sixteen)}
    fast, slow = eight.rates(reduce[8]), sixteen.rates(reduce[16])
    assert slow.seconds_per_byte == pytest.approx(9 * fast.seconds_per_byte)  # 450 against 50 GB/s


def test_a_measured_link_is_in_place_of_the_nominal_one() -> None:
    link = {"bytes_per_s": 17e9, "latency_s": 2e-5}
    from jaxsim.specs import Link

    clock = Roofline(model="llama-3.1-8b", hardware="l40s", tensor_parallel=2, link=Link(**link))
    reduce = next(operator for operator in clock.operators if operator.name == "all-reduce")
    rates, kernel = clock.rates(reduce), clock.efficiencies.collective
    assert kernel is not None
    assert rates.seconds_per_byte == pytest.approx(1 / (17e9 * kernel.memory))
    assert rates.overhead_s == pytest.approx(kernel.overhead_s + 2 * 2e-5)
