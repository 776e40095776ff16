"""Runs of the size that a precision needs: intervals that cover, bias that is found, overload that is said."""

import math

import numpy as np
import pytest

from jaxsim.analysis.monte_carlo import monte_carlo
from jaxsim.analysis.scenarios import resized
from jaxsim.analysis.statistics import Sample, Statistic
from jaxsim.analysis.steadiness import drift_of, growth_of, mser, warmup_of
from jaxsim.simulate import run
from tests.analysis import engines

LOAD, SERVICE = 0.5, 5 / 64
RUNS = 40


def test_intervals_cover_as_often_as_they_say() -> None:
    """M/D/1 at a load of 1/2 has mean wait D / 2, and P(wait <= t) = e^(rate t) / 2 for t < D (Erlang 1909).

    40 runs of 95 % intervals: fewer than 34 cover with probability 1e-3; the runs are fixed, so this never flickers.
    """
    truth = {"queue_s.mean": SERVICE / 2, "queue_s.p70": math.log(1.4) / (LOAD / SERVICE)}
    covered = dict.fromkeys(truth, 0)
    for place in range(RUNS):
        scenario = engines.m_d_1(LOAD, num_requests=400, seeds=1)
        scenario = resized(scenario, first_seed=1000 * place, warmup_requests=40)
        answer = monte_carlo(scenario, dict.fromkeys(truth, 0.15), horizon="terminating", pilot_seeds=16)
        assert answer.met
        for target in answer.targets:
            _, low, high = target.measured
            assert low is not None and high is not None
            covered[target.statistic.name] += low <= truth[target.statistic.name] <= high
    assert all(count >= 34 for count in covered.values()), covered


def test_a_tighter_precision_takes_more_and_is_told_before() -> None:
    told: list[str] = []
    scenario = engines.chat(rate=15.0)
    loose = monte_carlo(scenario, {"ttft_s.p90": 0.2}, pilot_seeds=8)
    tight = monte_carlo(scenario, {"ttft_s.p90": 0.02}, pilot_seeds=8, notify=told.append)
    assert loose.met and tight.met and tight.simulated_requests > 2 * loose.simulated_requests
    assert "requests" in told[0] and " s " in told[0]
    assert tight.result.summary["ttft_s"]["p90"] == tight.targets[0].measured.value


def test_the_budget_ends_it_and_that_is_said() -> None:
    answer = monte_carlo(engines.chat(), {"ttft_s.p99.9": 0.001}, pilot_seeds=8, max_requests=4000)
    assert not answer.met and answer.simulated_requests <= 4000
    assert any("budget" in warning for warning in answer.warnings)


def test_repeated_it_is_the_same_to_the_last_bit() -> None:
    a, b = (monte_carlo(engines.chat(), {"ttft_s.p90": 0.05}, pilot_seeds=8) for _ in range(2))
    assert a.to_json() == b.to_json() and a.to_csv() == b.to_csv()
    assert a.result.summary == b.result.summary


@pytest.mark.slow
def test_initial_bias_is_found_and_outgrown() -> None:
    """At a load of .95 a run of 100 requests reads less than half of the mean wait; lengthened, it is right."""
    scenario = engines.m_d_1(0.95, num_requests=100, seeds=16)
    truth = 0.95 * SERVICE / (2 * 0.05)
    short = run(resized(scenario, seeds=64), keep_requests=True)
    assert short.summary["queue_s"]["mean_ci"][1] < truth / 2
    answer = monte_carlo(scenario, {"queue_s.mean": 0.08}, max_requests=6_000_000)
    assert answer.num_requests >= 1000 and answer.targets[0].needed_requests is None
    assert abs(answer.result.summary["queue_s"]["mean"] / truth - 1) < 0.1


def test_a_terminating_run_keeps_its_start() -> None:
    scenario = engines.chat()
    answer = monte_carlo(scenario, {"ttft_s.p90": 0.1}, horizon="terminating", pilot_seeds=8)
    assert (answer.warmup_requests, answer.num_requests) == (0, 100)
    arrivals = {"kind": "piecewise", "times_s": [0.0, 2.0], "rates": [5.0, 10.0]}
    working_day = engines.chat(arrivals=arrivals)
    assert monte_carlo(working_day, {"ttft_s.p90": 0.2}, pilot_seeds=8).horizon == "terminating"
    with pytest.raises(ValueError, match="no steady state"):
        monte_carlo(working_day, {"ttft_s.p90": 0.2}, horizon="steady")


def test_overload_is_said_with_the_growth_of_the_queue() -> None:
    """Arrivals at 1.5 times what one slot serves: the queue grows by the rest."""
    answer = monte_carlo(engines.m_d_1(1.5, num_requests=400), {"ttft_s.p90": 0.1}, pilot_seeds=8)
    assert answer.growth.overloaded and answer.horizon == "terminating"
    assert answer.growth.per_s == pytest.approx(0.5 * 12.8, rel=0.15)
    assert answer.warnings[0].startswith("queue grows at 6") and "no steady state" in answer.warnings[0]


@pytest.mark.parametrize("load", [0.5, 0.9])
def test_a_stable_queue_is_not_called_overloaded(load: float) -> None:
    """Of 100 runs each, none may be (a rule of five requests and half as many again beside the interval)."""
    table = run(engines.m_d_1(load, num_requests=400, seeds=400), keep_requests=True).requests
    assert table is not None
    for start in range(0, 400, 4):
        assert not growth_of(table.block(seeds=slice(start, start + 4))).overloaded


def test_mser_cuts_a_transient() -> None:
    rng = np.random.default_rng(0)
    steady = rng.normal(1.0, 0.1, 1000)
    assert mser(steady) == pytest.approx((0, True), abs=100)
    assert mser(np.concatenate([np.linspace(3, 1, 200), steady]))[0] in range(150, 260)
    assert mser(np.linspace(0, 1, 1000))[1] is False
    assert mser(np.ones(10)) == (0, False)


def test_warmup_and_drift_of_a_filling_queue() -> None:
    scenario = engines.m_d_1(0.9, num_requests=400, seeds=400)
    result = run(scenario, keep_requests=True)
    assert result.requests is not None
    warmup, settled = warmup_of(result.requests)
    assert settled and 20 <= warmup <= 200
    queue = Statistic.parse("queue_s.mean")
    drift = drift_of(Sample.of(result, scenario), queue)
    assert drift.is_sure and -0.4 < drift.whole_run < -0.05
    assert drift.needed_factor(0.01) > 2 and drift.needed_factor(0.5) == 1.0
    assert not drift_of(Sample.of(result, scenario, warmup=300), queue).still_moves


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ttft_s.p99", "ttft_s.p99"),
        ("p99 ttft", "ttft_s.p99"),
        ("TTFT p99.9", "ttft_s.p99.9"),
        ("tpot.mean", "tpot_s.mean"),
        ("goodput", "goodput_requests_per_s"),
        ("attainment", "slo_attainment"),
    ],
)
def test_names_of_statistics(text: str, name: str) -> None:
    assert Statistic.parse(text).name == name
    assert Statistic.parse(name).label


@pytest.mark.parametrize("text", ["", "ttft", "p99", "ttft_s.p999", "latency.p99", "goodput.mean", "ttft_s.p9 9"])
def test_unknown_statistics_are_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"statistic '.*'|such as"):
        Statistic.parse(text)
