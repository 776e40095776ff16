"""Capacity of queues whose capacity is known, and of a batching engine."""

import dataclasses
import json
import math

import pytest

from jaxsim.analysis.capacity import capacity
from jaxsim.analysis.promises import met
from jaxsim.analysis.scenarios import at_rate, changed, rate_of, resized
from jaxsim.simulate import run
from tests.analysis import engines

SERVICE = 5 / 64
FIRST = 1 / 64
"""An M/D/1 request's first token comes one iteration after its wait."""

# P(wait <= t) = (1 - load) e^(rate t) for t < service (Erlang 1909): at a load of 1/2, 70 % wait at most
P70_WAIT = math.log(1.4) / (0.5 / SERVICE)


@pytest.mark.parametrize(
    ("slo", "load"),
    [
        ({"ttft_s": {"mean": 0.8 * SERVICE / (2 * 0.2) + FIRST}}, 0.8),
        ({"ttft_s": {"p70": P70_WAIT + FIRST}}, 0.5),
        ({"ttft_s": P70_WAIT + FIRST, "attainment": 0.7}, 0.5),
    ],
    ids=["mean", "percentile", "attainment"],
)
def test_the_capacity_of_m_d_1_is_known(slo, load: float) -> None:
    """Inside the interval of the answer widened by half (a 99.7 % interval)."""
    if "attainment" in slo:
        slo["percentile"] = 50  # far from breaking
    answer = capacity(engines.m_d_1(0.3, num_requests=500, slo=slo), precision=0.03)
    truth = load / SERVICE
    assert answer.rate_per_s is not None and answer.interval is not None and answer.bias is not None
    half = (answer.interval.high - answer.interval.low) / 2
    assert half <= 0.03 * answer.rate_per_s and abs(answer.bias) <= 0.015
    assert abs(answer.rate_per_s - truth) < 1.5 * half + 0.01 * truth
    assert answer.limit_per_s == pytest.approx(1 / SERVICE, rel=1e-3)
    assert answer.facts["binding"] == (
        "slo_attainment" if "attainment" in slo else f"ttft_s.{next(iter(slo['ttft_s']))}"
    )


@pytest.mark.slow
def test_at_the_answer_the_promise_is_just_kept() -> None:
    """A batching engine: long independent runs 4 % below and above the answer agree with it."""
    scenario = engines.chat(num_requests=500, slo={"ttft_s": {"p95": 0.25}})
    answer = capacity(scenario, precision=0.03)
    assert answer.rate_per_s is not None
    for share, keeps in ((0.95, True), (1.05, False)):
        check = resized(
            at_rate(scenario, share * answer.rate_per_s), first_seed=10_000, num_requests=8000, warmup_requests=2000
        )
        value = run(check).summary["ttft_s"]["p95"]
        assert (value <= 0.25) == keeps
    rates = [row["rate_per_s"] for row in answer.rows]
    assert rates == sorted(rates) and answer.knee_per_s is not None
    assert 0.8 * answer.rate_per_s < answer.knee_per_s < 1.2 * answer.rate_per_s


def test_repeated_it_is_the_same_to_the_last_bit() -> None:
    scenario = engines.m_d_1(0.3, num_requests=500, slo={"ttft_s": {"p70": P70_WAIT + FIRST}})
    a, b = (capacity(scenario, precision=0.1) for _ in range(2))
    assert a.to_json() == b.to_json() and a.to_csv() == b.to_csv()


def test_no_rate_keeps_what_cannot_be_kept() -> None:
    answer = capacity(engines.m_d_1(0.3, num_requests=500, slo={"ttft_s": {"p50": 1e-3}}), precision=0.2)
    assert answer.rate_per_s is None and answer.interval is None
    assert answer.sentences[0].startswith("No rate keeps P50 TTFT ≤ 0.001 s")
    assert json.loads(answer.to_json())["rate_per_s"] is None


def test_the_budget_ends_the_search_and_that_is_said() -> None:
    slo = {"ttft_s": {"p70": P70_WAIT + FIRST}}
    answer = capacity(engines.m_d_1(0.3, num_requests=500, slo=slo), precision=0.001, max_requests=400_000)
    assert answer.simulated_requests < 500_000 and any("budget ended" in warning for warning in answer.warnings)


@pytest.mark.slow
def test_fewest_instances_of_a_known_case() -> None:
    """20 requests/s at random to M/D/1 instances that keep the promise up to 6.4 each: 4; with 3 each gets 6.67."""
    scenario = engines.m_d_1(0.5, num_requests=500, seeds=16, slo={"ttft_s": {"p70": P70_WAIT + FIRST}})
    scenario = changed(at_rate(scenario, 20.0), {"cluster.router": {"kind": "random"}})
    answer = capacity(scenario, "instances")
    assert answer.counts == (4,) and answer.interval == (4.0, 4.0)
    assert "Fewest instances: 4" in answer.sentences[0] and "3 instances breaks" in answer.sentences[1]
    verdicts = {row["group_0"]: row["verdict"] for row in answer.rows}
    assert verdicts[3] == "missed" and verdicts[4] == "met"


def test_the_cheapest_mix_is_found_among_two_kinds() -> None:
    """A kind twice as fast at 1.5 times the price is the better buy, unless one slow instance is enough."""
    scenario = engines.m_d_1(0.5, num_requests=300, seeds=16, slo={"ttft_s": {"p70": P70_WAIT + FIRST}})
    slow = scenario.cluster.instances[0]
    fast = dataclasses.replace(slow, latency=dataclasses.replace(slow.latency, base_s=2.0**-7))
    groups = (
        dataclasses.replace(slow, name="slow", cost_per_hour=2.0),
        dataclasses.replace(fast, name="fast", cost_per_hour=3.0),
    )
    scenario = dataclasses.replace(
        scenario, cluster=dataclasses.replace(scenario.cluster, instances=groups, router={"kind": "random"})
    )
    answer = capacity(at_rate(scenario, 11.0), "instances")
    assert answer.counts == (0, 1) and answer.cost_per_hour == 3.0 and "1 x fast" in answer.sentences[0]
    assert capacity(at_rate(scenario, 5.0), "instances").counts == (1, 0)


def test_a_trace_is_a_terminating_run(tmp_path) -> None:
    trace = tmp_path / "trace.csv"
    rows = [f"{i * 0.05},10,{5 + i % 7}" for i in range(200)]
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    scenario = changed(engines.chat(slo={"ttft_s": {"p90": 0.02}}), {"workload": {"kind": "trace", "path": str(trace)}})
    assert rate_of(scenario) == pytest.approx(20)
    answer = capacity(scenario, precision=0.1)
    assert answer.rate_per_s is not None and answer.rate_per_s > 20 and answer.bias is None
    assert any("resampled" in warning for warning in answer.warnings)
    assert met(answer.points[0].margins) and not met(answer.points[-1].margins)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="slo: is needed"):
        capacity(engines.m_d_1(0.5))
    with pytest.raises(ValueError, match="vary must be rate or instances"):
        capacity(engines.m_d_1(0.5, slo={"ttft_s": 1.0}), "gpus")  # type: ignore[call-overload]
