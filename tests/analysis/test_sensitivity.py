"""Sensitivities: analytic functions through the same path, and an engine whose answers are known."""

import numpy as np
import pytest

from jaxsim.analysis.scenarios import changed, resized
from jaxsim.analysis.sensitivity import morris, numeric_keys, sensitivity, sobol
from tests.analysis import engines

PI = {name: (-np.pi, np.pi) for name in ("x1", "x2", "x3")}


def ishigami(points: np.ndarray) -> np.ndarray:
    x1, x2, x3 = points.T
    return np.sin(x1) + 7 * np.sin(x2) ** 2 + 0.1 * x3**4 * np.sin(x1)


def test_sobol_indices_of_ishigami() -> None:
    """Known in closed form (Ishigami & Homma 1990)."""
    effects, runs = sobol(ishigami, PI, 1024)
    found = {effect.key: effect for effect in effects}
    assert runs == 1024 * 5
    for key, first, total in (("x1", 0.3139, 0.5576), ("x2", 0.4424, 0.4424), ("x3", 0.0, 0.2437)):
        effect = found[key]
        assert effect.value == pytest.approx(total, abs=0.03)
        assert effect.low is not None and effect.high is not None and effect.low < total < effect.high
        assert effect.more["first_order"] == pytest.approx(first, abs=0.04)


def test_morris_of_a_plane_is_its_slopes() -> None:
    effects, runs = morris(lambda points: points @ np.array([3.0, -2.0, 0.0]), dict.fromkeys("abc", (0.0, 1.0)), 8)
    assert runs == 8 * 4
    assert [effect.value for effect in effects] == pytest.approx([3, 2, 0])
    assert effects[1].more["mu"] == pytest.approx(-2) and effects[0].more["sigma"] == pytest.approx(0, abs=1e-9)


def test_elasticities_of_a_lone_request_are_known() -> None:
    """Where nobody meets anybody, E2E is a multiple of the iteration time, and does not know the arrival rate."""
    scenario = engines.m_d_1(0.01, num_requests=400, seeds=16)
    answer = sensitivity(scenario, ["latency.base_s", "clock", "workload.arrivals.rate"], statistic="e2e_s.mean")
    found = {effect.key: effect for effect in answer.effects}
    assert found["clock"].value == pytest.approx(1, abs=0.02)
    assert found["latency.base_s"].value == pytest.approx(1, abs=0.02)
    assert found["workload.arrivals.rate"].value == pytest.approx(0, abs=0.02)
    assert answer.effects[-1].key == "workload.arrivals.rate"


def test_the_clock_and_the_rate_tell_the_same_story() -> None:
    """A slower clock is faster arrivals in longer seconds: its elasticity of a latency is that of the rate plus one."""
    scenario = engines.chat(rate=30.0)
    answer = sensitivity(scenario, ["clock", "workload.arrivals.rate"])
    found = {effect.key: effect.value for effect in answer.effects}
    assert found["clock"] == pytest.approx(found["workload.arrivals.rate"] + 1, rel=1e-6)
    assert "a 1 % slower clock moves P99 TTFT by +" in " ".join(answer.sentences)


def test_the_interval_of_an_elasticity_holds_the_truth() -> None:
    """That of 8 seeds holds that of 640."""
    scenario = engines.chat(rate=30.0, seeds=640)
    truth = sensitivity(scenario, ["workload.output_tokens.sigma"], statistic="e2e_s.mean").effects[0]
    few = resized(scenario, seeds=8, first_seed=1000)
    found = sensitivity(few, ["workload.output_tokens.sigma"], statistic="e2e_s.mean").effects[0]
    assert found.low is not None and found.high is not None and truth.low is not None and truth.high is not None
    assert found.low < truth.value < found.high
    assert 4 * (truth.high - truth.low) < found.high - found.low


def test_whole_numbers_move_by_whole_steps_and_screening_ranks_them() -> None:
    scenario = engines.chat(rate=40.0)
    keys = ["scheduler.max_num_seqs", "latency.per_prefill_pair_s", "workload.arrivals.rate"]
    answer = sensitivity(scenario, keys, method="morris", statistic="ttft_s.mean", samples=4)
    assert answer.runs == 16 and answer.effects[0].key == "workload.arrivals.rate"
    one_slot = changed(scenario, {"scheduler.max_num_seqs": 1, "workload.arrivals.rate": 1.0})
    answer = sensitivity(one_slot, ["scheduler.max_num_seqs", "clock"], statistic="ttft_s.mean")
    assert "scheduler.max_num_seqs was left out" in answer.warnings[0]


def test_all_keys_that_can_be_turned_are_found() -> None:
    keys = numeric_keys(engines.chat(instance={"kv_cache": {"num_blocks": 5000}}))
    assert {"workload.arrivals.rate", "workload.output_tokens.sigma", "latency.base_s"} <= set(keys)
    assert {"scheduler.max_num_batched_tokens", "kv_cache.num_blocks"} <= set(keys)
    assert not any(key.endswith((".min", ".max", "num_requests", "first_seed")) for key in keys)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "gradient"}, "method must be"),
        ({"vary": ["scheduler.max_num_seq"]}, "did you mean max_num_seqs"),
        ({"vary": ["scheduler.kind"]}, "must be a number"),
        ({"vary": {"latency.base_s": (2.0, 1.0)}, "method": "morris"}, "lower to a higher"),
        ({"vary": ["latency.base_s"], "method": "sobol", "samples": 3}, "power of two"),
        ({"statistic": "kv_utilisation"}, "cannot be paired"),
    ],
)
def test_bad_input_is_named(options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sensitivity(engines.chat(), **options)


def test_repeated_it_is_the_same_to_the_last_bit() -> None:
    scenario = engines.chat()
    keys = ["latency.base_s", "workload.arrivals.rate"]
    for method in ("elasticity", "morris", "sobol"):
        a, b = (sensitivity(scenario, keys, method=method, samples=4).to_json() for _ in range(2))
        assert a == b
