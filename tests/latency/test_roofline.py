"""roofline: pieces against stepping, price against operators, what parameters do, mistakes."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxsim._component import as_arrays
from jaxsim.latency.roofline import Roofline
from jaxsim.operators import Efficiency, KernelEfficiency, fitted_efficiency
from jaxsim.operators.batch import TERMS
from jaxsim.specs import HardwareSpec, Link, ModelSpec, named_model
from tests.operators.batches import terms

DENSE = {"layers": 4, "hidden": 64, "heads": 8, "kv_heads": 2, "head_dim": 16, "ffn": 128, "vocab": 512}
MIXTURE = {
    **DENSE,
    "experts": 4,
    "experts_per_token": 2,
    "expert_ffn": 64,
    "dense_layers": 2,
    "sliding_window": 300,
    "sliding_layers": 2,
}
LATENT = {**DENSE, "kv_lora_rank": 32, "qk_nope_dim": 16, "qk_rope_dim": 8, "v_head_dim": 16}
SPECS = {"dense": DENSE, "mixture": MIXTURE, "latent": LATENT}


@functools.cache
def _price(structure: str):
    """One compiled program for each kind of model: numbers are leaves."""
    del structure
    return jax.jit(lambda clock, terms, growth: clock.price(terms, growth))


def price(structure: str, clock: Roofline, at: dict[str, float], growth: dict[str, float] | None = None):
    with jax.enable_x64(True):
        values, gains = ({name: jnp.float64(given.get(name, 0.0)) for name in TERMS} for given in (at, growth or {}))
        piece = _price(structure)(as_arrays(clock), values, gains)
        return float(piece.first_s), float(piece.growth_s), float(piece.iterations)


@st.composite
def clocks(draw, structure: str):
    """Devices whose two roofs are close, so that maxima change hands."""
    return Roofline(
        model=ModelSpec(**SPECS[structure]),
        hardware=HardwareSpec(
            bf16_flops_per_s=draw(st.sampled_from([1e9, 4e9, 2e10])),
            memory_bytes_per_s=draw(st.sampled_from([3e8, 1e9])),
            memory_bytes=1e9,
            compute_units=draw(st.sampled_from([1, 7])),
        ),
        tensor_parallel=draw(st.sampled_from([1, 2, 4])),
        pipeline_parallel=2,
        pipeline_batches=draw(st.sampled_from([2, 3])),
        host_s=draw(st.sampled_from([0.0, 1e-3])),
        efficiency=Efficiency(mixed_layer_s=draw(st.sampled_from([0.0, 1e-4]))),
    )


contexts = st.lists(st.integers(1, 4000), max_size=6)
chunk = st.tuples(st.integers(1, 600), st.integers(0, 3000))


@pytest.mark.parametrize("structure", SPECS)
@settings(max_examples=60)
@given(data=st.data())
def test_iterations_in_closed_form_are_those_priced_one_by_one(structure: str, data: st.DataObject) -> None:
    clock = data.draw(clocks(structure))
    decodes, chunks = data.draw(contexts), data.draw(st.lists(chunk, max_size=1))
    if not decodes and not chunks:
        decodes = [1]
    at = terms(decodes=decodes, chunks=chunks)
    growth = {"context_tokens": at["decode_seqs"], "prefill_pairs": at["prefill_squares"]}
    first, grows, iterations = price(structure, clock, at, growth)
    assert iterations >= 1 and first > 0 and grows >= 0
    assert first == price(structure, clock, at)[0], "to the last bit, however the terms grow"
    for j in {0, 1, 2, 3, 10, 100, min(1000, iterations - 1)}:
        if j < iterations:
            later = {name: value + j * growth.get(name, 0.0) for name, value in at.items()}
            assert first + j * grows == pytest.approx(price(structure, clock, later)[0], rel=1e-12)


@pytest.mark.parametrize("structure", SPECS)
@settings(max_examples=30)
@given(data=st.data())
def test_the_price_is_the_sum_of_the_operators(structure: str, data: st.DataObject) -> None:
    clock = data.draw(clocks(structure))
    at = terms(decodes=data.draw(contexts) or [7], chunks=data.draw(st.lists(chunk, max_size=3)))
    assert price(structure, clock, at)[0] == pytest.approx(clock.seconds(at), rel=1e-12)


def test_a_maximum_that_changes_hands_ends_the_piece() -> None:
    # a window of 300 tokens that a decode's context reaches after 100 iterations
    clock = Roofline(model=ModelSpec(**MIXTURE), hardware=hardware())
    at = terms(decodes=[200])
    _, grows, iterations = price("window", clock, at, {"context_tokens": 1.0})
    assert iterations == 101
    full = terms(decodes=[301])
    assert price("window", clock, full, {"context_tokens": 1.0})[1] < grows


def hardware(**changed: float) -> HardwareSpec:
    return HardwareSpec(**{"bf16_flops_per_s": 1e10, "memory_bytes_per_s": 1e9, "memory_bytes": 1e9, **changed})


def test_models_of_one_kind_share_a_compiled_program() -> None:
    def structure(name: str, **options: object) -> object:
        return jax.tree.structure(as_arrays(Roofline(model=name, hardware="h100", **options)))  # type: ignore[arg-type]

    assert structure("llama-3.1-8b") == structure("qwen2.5-72b") == structure("llama-3.1-405b", dtype="fp8")
    assert structure("mixtral-8x7b") == structure("qwen3-30b-a3b")
    assert structure("llama-3.1-8b") != structure("mixtral-8x7b")


@pytest.mark.parametrize("name", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3", "gpt-oss-20b"])
def test_a_mixed_batch_reads_the_weights_once(name: str) -> None:
    clock = Roofline(model=name, hardware="h200", tensor_parallel=8, efficiency=Efficiency(mixed_layer_s=0.0))
    decodes, chunks = [1000] * 32, [(256, 0)]
    apart = clock.seconds(terms(decodes=decodes)) + clock.seconds(terms(chunks=chunks))
    together = clock.seconds(terms(decodes=decodes, chunks=chunks))
    assert max(apart / 2, 0) < together < 0.95 * apart


def test_mixed_iterations_take_longer_by_a_constant_a_layer() -> None:
    with_cost, without = (
        Roofline(model="llama-3.1-8b", hardware="h100", efficiency=Efficiency(mixed_layer_s=cost))
        for cost in (6e-5, 0.0)
    )
    mixed = terms(decodes=[10], chunks=[(100, 0)])
    assert with_cost.seconds(mixed) - without.seconds(mixed) == pytest.approx(32 * 6e-5)
    for other in (terms(decodes=[10]), terms(chunks=[(100, 0)])):
        assert with_cost.seconds(other) == without.seconds(other)
    assert Roofline(model="llama-3.1-8b", hardware="h100").seconds(mixed) == with_cost.seconds(mixed), "the default"


def test_the_host_adds_its_time_to_every_iteration() -> None:
    plain, slow = (Roofline(model="llama-3.1-8b", hardware="h100", host_s=host_s) for host_s in (0.0, 1.1e-3))
    at = terms(decodes=[10] * 3)
    assert slow.seconds(at) - plain.seconds(at) == pytest.approx(1.1e-3)


def test_stages_fill_with_requests() -> None:
    one = Roofline(model="llama-3.1-70b", hardware="h100", tensor_parallel=4)
    four = Roofline(model="llama-3.1-70b", hardware="h100", tensor_parallel=4, pipeline_parallel=4)
    lone = terms(decodes=[1000])
    hop_s = sum(four.rates(o).overhead_s * o.count for o in four.operators if o.name == "between stages")
    assert four.seconds(lone) == pytest.approx(one.seconds(lone) + hop_s, rel=1e-3), "one request fills one stage"
    # many requests: four batches of a quarter each are between the stages, and all pass in one such time
    many, quarter = terms(decodes=[1000] * 256), terms(decodes=[1000] * 64)
    assert four.seconds(many) == pytest.approx(one.seconds(quarter) + hop_s, rel=1e-2)
    assert four.seconds(many) < one.seconds(many)


def test_ranks_in_lock_step_meet_at_the_experts() -> None:
    one = Roofline(model="mixtral-8x7b", hardware="h200", tensor_parallel=1)
    four = Roofline(model="mixtral-8x7b", hardware="h200", data_parallel=4, expert_parallel=4)
    prompt = terms(chunks=[(4096, 0)])
    experts = {c.data_parallel: next(o for o in c.operators if o.kind == "experts") for c in (one, four)}
    rows = {c.data_parallel: c.measure(prompt)["expert_rows"].first for c in (one, four)}
    assert rows[4] == rows[1], "four times the tokens over four groups"
    assert experts[4].flops == experts[1].flops
    uneven = Roofline(model="mixtral-8x7b", hardware="h200", data_parallel=4, expert_parallel=4, expert_imbalance=1.3)
    assert uneven.measure(prompt)["expert_rows"].first == pytest.approx(1.3 * rows[4])


def test_narrow_weights_are_faster_where_memory_is_the_bound() -> None:
    wide, narrow = (Roofline(model="llama-3.1-8b", hardware="h100", dtype=dtype) for dtype in ("bf16", "fp8"))
    at = terms(decodes=[100])
    assert 0.5 < narrow.seconds(at) / wide.seconds(at) < 0.8
    a100 = Roofline(model="llama-3.1-8b", hardware="a100", dtype="fp8")
    prompt = terms(chunks=[(8192, 0)])
    assert a100.seconds(prompt) == pytest.approx(
        Roofline(model="llama-3.1-8b", hardware="a100").seconds(prompt), rel=0.02
    ), "without tensor cores for fp8, compute is as in 16 bits"


def test_efficiencies_may_be_given_in_part() -> None:
    clock = Roofline(
        model="llama-3.1-8b", hardware="h100", efficiency=Efficiency(gemm=KernelEfficiency(compute=0.5, memory=0.5))
    )
    assert clock.efficiencies == dataclasses.replace(
        fitted_efficiency("h100-sxm"), gemm=KernelEfficiency(compute=0.5, memory=0.5)
    )


def test_names_and_shapes_are_the_same_model() -> None:
    by_name = Roofline(model="llama-3.1-8b", hardware="h100-sxm")
    assert by_name == Roofline(model=named_model("llama-3.1-8b"), hardware=by_name.device)
    assert hash(by_name) == hash(Roofline(model="Llama-3.1-8B", hardware="h100"))


def test_rows_of_many_batches_at_once() -> None:
    clock = Roofline(model="gpt-oss-20b", hardware="h100")
    batches = [terms(decodes=[10] * 3), terms(chunks=[(100, 0)]), terms(decodes=[5000], chunks=[(64, 1000)])]
    together = clock.seconds({name: np.array([batch[name] for batch in batches]) for name in TERMS})
    np.testing.assert_allclose(together, [clock.seconds(batch) for batch in batches], rtol=1e-14)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tensor_parallel": 0}, "tensor_parallel must be 1 or greater, not 0"),
        ({"tensor_parallel": 3}, "tensor_parallel must divide the 32 heads"),
        ({"expert_imbalance": 0.5}, "expert_imbalance must be 1 or greater, not 0.5"),
        ({"host_s": -1.0}, "host_s must be a finite number, 0 or greater"),
        ({"model": "lama"}, "model 'lama' is not known"),
        ({"hardware": "abacus"}, "hardware 'abacus' is not known"),
        ({"link": Link(bytes_per_s=1.0, latency_s=0.0), "data_parallel": 2}, "data_parallel must be 1"),
    ],
)
def test_mistakes(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Roofline(**{"model": "llama-3.1-8b", "hardware": "h100", **given})  # type: ignore[arg-type]
