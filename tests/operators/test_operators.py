"""Operations and bytes of every operator against counts by hand."""

import math

import pytest

from jaxsim.operators.attention import decode_attention, prefill_attention
from jaxsim.operators.base import Rates, amount, seconds
from jaxsim.operators.batch import Sizes
from jaxsim.operators.collective import all_gather, all_reduce, all_to_all, point_to_point
from jaxsim.operators.elementwise import elementwise, gate, norm
from jaxsim.operators.embedding import embedding, lm_head
from jaxsim.operators.gemm import gemm
from jaxsim.operators.moe import expert_load, experts, ranks_per_token
from jaxsim.specs import ModelSpec, Parallelism
from tests.operators.batches import measured, work

GQA = ModelSpec(layers=2, hidden=8, heads=4, kv_heads=2, head_dim=16, ffn=32, vocab=100)
MLA = ModelSpec(
    layers=2,
    hidden=8,
    heads=4,
    kv_heads=4,
    head_dim=16,
    ffn=32,
    vocab=100,
    kv_lora_rank=32,
    qk_nope_dim=16,
    qk_rope_dim=8,
    v_head_dim=24,
)
MOE = ModelSpec(
    layers=2,
    hidden=8,
    heads=4,
    kv_heads=2,
    head_dim=16,
    ffn=32,
    vocab=100,
    experts=8,
    experts_per_token=2,
    expert_ffn=12,
)


@pytest.mark.parametrize(
    ("weights", "computes_in", "weight_bytes", "in_bytes"), [("bf16", "bf16", 2, 2), ("fp8", "fp8", 1, 1)]
)
def test_gemm(weights: str, computes_in: str, weight_bytes: int, in_bytes: int) -> None:
    operator = gemm("x", 5, 7, weights=weights, computes_in=computes_in)
    found = measured(decodes=[10, 20], chunks=[(3, 0)])  # 5 rows
    assert work(operator, found) == (2 * 5 * 5 * 7, 5 * 7 * weight_bytes + 5 * (5 * in_bytes + 7 * 2))


def test_weights_that_are_widened_are_read_narrow() -> None:
    flops, moved = work(gemm("x", 64, 128, weights="int4", computes_in="bf16"), measured(decodes=[9]))
    assert (flops, moved) == (2 * 64 * 128, 64 * 128 * (0.5 + 2.5 / 128) + (64 + 128) * 2)


def test_prefill_attention_is_causal() -> None:
    # a chunk of 3 tokens after 2: they attend to 3, 4 and 5 tokens; half of the diagonal is counted
    operator = prefill_attention(GQA, 1, "bf16", window=False, count=2)
    flops, moved = work(operator, measured(chunks=[(3, 2)]))
    pairs = 3 * 2 + 3 * 3 / 2
    assert flops == 2 * 4 * (16 + 16) * pairs  # query-key and value products of 4 heads
    assert moved == 3 * 4 * (16 + 16) * 2 + 5 * 2 * 2 * 16 * 2  # queries and results; K and V of 2 heads


def test_prefill_attention_of_a_window() -> None:
    operator = prefill_attention(GQA, 1, "bf16", window=True, count=1)
    sizes = Sizes(prefill_tile_rows=1.0, heads=1.0, compute_units=1.0, window=4.0)
    flops, moved = work(operator, measured(sizes, chunks=[(3, 10)]))
    assert flops == 2 * 4 * 32 * 3 * 4  # every token attends to 4
    assert moved == 3 * 4 * 32 * 2 + (3 + 4) * 2 * 2 * 16 * 2


def test_prefill_attention_of_latents_is_in_the_expanded_form() -> None:
    flops, moved = work(prefill_attention(MLA, 1, "bf16", window=False, count=1), measured(chunks=[(4, 0)]))
    assert flops == 2 * 4 * (24 + 24) * 8
    assert moved == 4 * 4 * (24 + 24) * 2 + 4 * 4 * (24 + 24) * 2


@pytest.mark.parametrize(("kv_dtype", "size"), [("bf16", 2), ("fp8", 1)])
def test_decode_attention_reads_the_cache_once(kv_dtype: str, size: int) -> None:
    operator = decode_attention(GQA, 1, kv_dtype, window=False, count=2)
    flops, moved = work(operator, measured(decodes=[10, 20]))
    assert flops == 4 * 4 * 16 * 30
    assert moved == 30 * 2 * 2 * 16 * size + 2 * 4 * (16 + 16) * 2


def test_decode_attention_of_a_window() -> None:
    sizes = Sizes(prefill_tile_rows=1.0, heads=1.0, compute_units=1.0, window=8.0)
    operator = decode_attention(GQA, 1, "bf16", window=True, count=1)
    assert work(operator, measured(sizes, decodes=[10, 20]))[0] == 4 * 4 * 16 * 16
    assert work(operator, measured(sizes, decodes=[3, 4]))[0] == 4 * 4 * 16 * 7


def test_decode_attention_of_latents() -> None:
    flops, moved = work(decode_attention(MLA, 1, "bf16", window=False, count=1), measured(decodes=[10, 20]))
    assert flops == 2 * 4 * ((32 + 8) + 32) * 30
    assert moved == 30 * (32 + 8) * 2 + 2 * 4 * (40 + 32) * 2


def test_devices_share_heads_but_not_the_latent() -> None:
    found = measured(decodes=[10])
    whole, half = (decode_attention(GQA, n, "bf16", window=False, count=1) for n in (1, 2))
    assert [2 * number for number in work(half, found)] == list(work(whole, found))
    latent = decode_attention(MLA, 4, "bf16", window=False, count=1)
    assert work(latent, found)[1] == 10 * 40 * 2 + 1 * (40 + 32) * 2


def test_tiles_and_waves_of_prefill_attention() -> None:
    # 20 rows are 2 tiles of 16; with 4 heads 8 tiles, in 2 waves of 6: as long as 12 full tiles
    sizes = Sizes(prefill_tile_rows=16.0, heads=4.0, compute_units=6.0)
    found = measured(sizes, chunks=[(20, 0)])
    assert found["tile_pairs"].first / found["pairs"].first == pytest.approx((12 / 8) * (32 / 20))
    found = measured(sizes, chunks=[(16, 0), (16, 0), (16, 0)])  # 12 full tiles, 2 full waves
    assert found["tile_pairs"].first == found["pairs"].first


def test_elementwise_operators_move_each_element_once() -> None:
    found = measured(decodes=[9, 9], chunks=[(3, 0)])
    assert work(norm("x", 8, count=1), found) == (0, 5 * 4 * 8 * 2)
    assert work(gate("x", 32, count=1), found) == (0, 5 * 3 * 32 * 2)
    assert work(elementwise("x", 10, count=1, kv_bytes=7), found) == (0, 5 * (10 * 2 + 7))
    assert work(embedding(GQA), found) == (0, 5 * 2 * 8 * 2)


def test_the_head_sees_one_token_of_each_request() -> None:
    flops, moved = work(lm_head(GQA, 4), measured(decodes=[9, 9], chunks=[(30, 0)]))
    assert (flops, moved) == (3 * 2 * 8 * 25, 8 * 25 * 2 + 3 * (8 + 25) * 2)


def test_experts() -> None:
    parallel = Parallelism()
    sizes = Sizes(prefill_tile_rows=1, heads=1, compute_units=1, **expert_load(MOE, parallel, 1.0))
    operator = experts(MOE, parallel, weights="bf16", computes_in="bf16", count=1)
    found = measured(sizes, decodes=[9, 9, 9])
    touched = 8 * (1 - (6 / 8) ** 3)  # each token leaves out 6 of 8
    flops, moved = work(operator, found)
    assert flops == 3 * 2 * 3 * 2 * 8 * 12
    assert moved == pytest.approx(touched * 3 * 8 * 12 * 2 + 6 * (2 * 8 + 4 * 12) * 2)
    assert found["expert_tile_rows"].first == 12  # tiles at most half empty


def test_many_rows_fill_the_tiles_of_experts() -> None:
    sizes = Sizes(prefill_tile_rows=1, heads=1, compute_units=1, **expert_load(MOE, Parallelism(), 1.0))
    found = measured(sizes, chunks=[(10_000, 0)])
    assert found["experts_touched"].first == pytest.approx(8)
    assert found["expert_tile_rows"].first == pytest.approx(20_000 + 8 * 64)


def test_groups_of_experts() -> None:
    parallel = Parallelism(tensor=1, data=4, expert=4)
    load = expert_load(MOE, parallel, 1.5)
    sizes = Sizes(prefill_tile_rows=1, heads=1, compute_units=1, **load)
    found = measured(sizes, decodes=[9] * 3)
    # the tokens of four ranks, 2 experts a token, over four groups of 2 experts, the busiest half as busy again
    assert found["expert_rows"].first == pytest.approx(4 * 3 * 2 / 4 * 1.5)
    assert found["experts_touched"].first == pytest.approx(2 * (1 - (6 / 8) ** 12))
    assert ranks_per_token(MOE, 4) == pytest.approx(3 * (1 - (3 / 4) ** 2))


def test_an_expert_that_every_token_is_sent_to() -> None:
    spec = ModelSpec(**{**_fields(MOE), "experts_per_token": 8})
    sizes = Sizes(prefill_tile_rows=1, heads=1, compute_units=1, **expert_load(spec, Parallelism(), 1.0))
    assert measured(sizes, decodes=[9])["experts_touched"].first == 8


def _fields(spec: ModelSpec) -> dict[str, object]:
    return {name: getattr(spec, name) for name in spec.__dataclass_fields__}  # type: ignore[attr-defined]


def test_collectives() -> None:
    found = measured(decodes=[9, 9])
    for operator, sent, hops in (
        (all_reduce("x", 100, 4, count=1), 2 * 3 / 4 * 100, 4),
        (all_gather("x", 100, 4, count=1), 3 / 4 * 100, 2),
        (all_to_all("x", 100, 4, count=1), 100, 2),
        (point_to_point("x", 100, 4, count=1), 100, 1),
    ):
        assert work(operator, found) == (0, 2 * sent)
        assert operator.hops == hops


def test_seconds_are_a_roofline() -> None:
    operator = gemm("x", 5, 7, weights="bf16", computes_in="bf16", count=3)
    found = measured(decodes=[9])
    flops, moved = work(operator, found)
    assert seconds(operator, Rates(1e-3, 1e-6, 0.5), found).first == pytest.approx(3 * (flops * 1e-3 + 0.5))
    assert seconds(operator, Rates(1e-6, 1e-3, 0.5), found).first == pytest.approx(3 * (moved * 1e-3 + 0.5))


def test_an_operator_without_its_kind_of_request_takes_no_time() -> None:
    operator = decode_attention(GQA, 1, "bf16", window=False, count=1)
    assert seconds(operator, Rates(1e-3, 1e-3, 1.0), measured(chunks=[(4, 0)])).first == 0


def test_terms_of_quantities_by_hand() -> None:
    found = measured(decodes=[5, 7], chunks=[(4, 2), (4, 6)])
    expected = {
        "tokens": 10,
        "sequences": 4,
        "decoding": 1,
        "prefilling": 1,
        "mixed": 1,
        "context": 12,
        "prefill_context": 6 + 10,
        "pairs": 4 * 2 + 8 + 4 * 6 + 8,
    }
    assert {name: found[name].first for name in expected} == expected
    empty = measured(decodes=[5])
    assert (empty["prefilling"].first, empty["mixed"].first, empty["prefill_context"].first) == (0, 0, 0)
    assert math.isfinite(empty["tile_pairs"].first)
    assert amount({"one": 3.0, "tokens": 2.0}, empty).first == 5
