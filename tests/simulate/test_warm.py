"""Replications that start as if the fleet had run for ever."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import jaxsim.simulate
from jaxsim.analysis.monte_carlo import monte_carlo
from jaxsim.analysis.scenarios import changed
from jaxsim.config.errors import ScenarioError
from jaxsim.mean_field import past_of
from jaxsim.simulate import run
from jaxsim.warm import after
from jaxsim.workload import Requests
from tests.analysis import engines

WARM = {"monte_carlo.start": "warm"}


def test_a_short_warm_run_reads_the_steady_state() -> None:
    """M/D/1 at a load of .95: 50 requests from an empty start read a quarter of the mean wait, from a warm one all."""
    scenario = engines.m_d_1(0.95, num_requests=50, seeds=500)
    truth = 0.95 * (5 / 64) / (2 * 0.05)
    empty, warm = (run(one, keep_requests=False).summary["queue_s"] for one in (scenario, changed(scenario, WARM)))
    assert empty["mean_ci"][1] < truth / 3
    assert warm["mean_ci"][0] < truth < warm["mean_ci"][1] and 0.85 < warm["mean"] / truth < 1.15


def test_it_is_the_end_of_a_run_of_all() -> None:
    """Requests before and after the start, served in one run, have the same latencies to the last bit."""
    scenario = changed(engines.chat(seeds=4), {**WARM, "monte_carlo.past_requests": 70, "cluster.instances.0.count": 2})
    warm = run(scenario, keep_requests=True).requests
    assert warm is not None and warm.num_requests == 100
    seeds = np.arange(4)
    own = scenario.workload.draw(seeds)
    both, start_s = after(scenario.workload.past(seeds, 70), own)
    whole = run(changed(scenario, {"monte_carlo": {"seeds": 4}}), requests=both, keep_requests=True).requests
    assert whole is not None
    whole = whole.block(requests=slice(70, None))
    for name in ("ttft_s", "queue_s", "e2e_s", "tpot_s", "preemptions", "instance", "output_tokens"):
        np.testing.assert_array_equal(getattr(warm, name), getattr(whole, name), err_msg=name)
    np.testing.assert_array_equal(warm.finish_s + start_s[:, None], whole.finish_s)
    np.testing.assert_allclose(warm.arrival_s, own.arrival_s, rtol=0, atol=1e-10)
    np.testing.assert_array_equal(warm.request, own.row)
    assert np.all(warm.arrival_s <= warm.first_scheduled_s)


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = changed(engines.chat(), WARM)
    whole = run(scenario)
    monkeypatch.setattr(jaxsim.simulate, "REQUESTS_PER_CHUNK", 1000)
    parts = run(scenario)
    assert parts.summary == whole.summary
    assert "each seed starts after" in whole.manifest["notices"][0]


def test_how_long_the_past_is() -> None:
    """Longer at a higher load, at more variable arrivals, and a multiple of the instances."""
    lengths = [past_of(changed(engines.m_d_1(load), WARM)).requests for load in (0.2, 0.5, 0.8, 0.95)]
    assert lengths == sorted(lengths) and lengths[0] < 40 and 4000 < lengths[-1] < 6000
    bursty = {"kind": "on_off", "rate_on": 12.0, "mean_on_s": 20.0, "mean_off_s": 20.0}
    assert past_of(engines.m_d_1(0.5, arrivals=bursty, monte_carlo={"start": "warm"})).requests > 3 * lengths[1]
    three = changed(engines.chat(rate=60.0), {**WARM, "cluster.instances.0.count": 3})
    assert past_of(three).requests % 3 == 0
    assert past_of(changed(three, {"monte_carlo.past_requests": 7})).requests == 9


def test_an_overloaded_fleet_starts_empty_and_that_is_said() -> None:
    result = run(changed(engines.m_d_1(1.5), WARM))
    assert "150% of what the fleet bears" in result.manifest["notices"][0]
    assert result.summary == run(engines.m_d_1(1.5)).summary


def test_what_has_no_past_is_refused_with_advice(tmp_path: Path) -> None:
    piecewise = {"kind": "piecewise", "times_s": [0.0], "rates": [5.0]}
    with pytest.raises(ScenarioError, match=r"monte_carlo.start: warm needs arrivals with a long-run rate.*empty"):
        run(engines.chat(arrivals=piecewise, monte_carlo={"start": "warm"}))
    with pytest.raises(ScenarioError, match="requests are given"):
        run(changed(engines.chat(), WARM), requests=Requests.from_arrays([0.0], 5, 5))
    (tmp_path / "t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0.0,5,5\n1.0,5,5\n")
    trace = {"kind": "trace", "path": str(tmp_path / "t.csv")}
    with pytest.raises(ScenarioError, match="warm needs a workload of kind synthetic"):
        run(changed(engines.chat(), {**WARM, "workload": trace}))
    with pytest.raises(ScenarioError, match="past_requests: must not be given with start: empty"):
        changed(engines.chat(), {"monte_carlo.past_requests": 5})


def test_monte_carlo_needs_no_warmup_after_a_warm_start() -> None:
    scenario = changed(engines.m_d_1(0.8, num_requests=50, seeds=1), WARM)
    answer = monte_carlo(scenario, {"queue_s.mean": 0.1}, pilot_seeds=16)
    assert (answer.warmup_requests, answer.horizon) == (0, "steady")
    assert answer.past_requests == past_of(scenario).requests
    assert answer.num_requests >= answer.past_requests and "after" in answer.sentences[-1]
    _, low, high = answer.targets[0].measured
    assert low is not None and high is not None and low < 0.8 * (5 / 64) / (2 * 0.2) < high
    assert dataclasses.asdict(scenario.monte_carlo)["past_requests"] is None
