"""What outages cost: both runs serve the same requests."""

import pytest

import jaxsim
from jaxsim.analysis.outages import STATISTICS, cost_of_outages, has_outages, without_outages
from jaxsim.config.io import parse_scenario
from jaxsim.report.page import html_report

LENGTHS = {"prompt_tokens": {"kind": "uniform", "min": 50, "max": 300}, "output_tokens": {"kind": "fixed", "value": 20}}


def scenario(on_failure: str = "requeue", **monte_carlo: int) -> jaxsim.Scenario:
    instance = {
        "latency": {"kind": "linear", "base_s": 0.01, "per_token_s": 2e-5},
        "scheduler": {"kind": "vllm_v1", "max_num_batched_tokens": 512, "max_num_seqs": 8, "async_scheduling": False},
    }
    away = {"unavailable": [[1.0, 3.0]], "on_failure": on_failure}
    return parse_scenario(
        {
            "name": "outage",
            "workload": {
                "kind": "synthetic",
                "num_requests": 60,
                "arrivals": {"kind": "poisson", "rate": 20.0},
                **LENGTHS,
            },
            "slo": {"ttft_s": 0.2},
            "cluster": {"router": {"kind": "least_outstanding"}, "instances": [instance, instance | away]},
            "monte_carlo": {"seeds": 4, **monte_carlo},
        }
    )


def test_both_columns_are_those_of_runs_of_their_own() -> None:
    given = scenario()
    calm = jaxsim.run(without_outages(given)).summary
    hit = jaxsim.run(given).summary
    found = {one.statistic.name: one for one in cost_of_outages(given)}
    for name in STATISTICS:
        metric, part = name.split(".")
        assert found[name].a == pytest.approx(calm[metric][part], rel=1e-12)
        assert found[name].b == pytest.approx(hit[metric][part], rel=1e-12)
    assert found["slo_attainment"].a == pytest.approx(calm["slo_attainment"])
    assert found["slo_attainment"].b == pytest.approx(hit["slo_attainment"])
    assert found["ttft_s.p99"].b > found["ttft_s.p99"].a
    assert found["ttft_s.p99"].seeds == 4 and found["ttft_s.p99"].change_interval is not None


def test_lost_requests_miss_what_was_promised() -> None:
    found = {one.statistic.name: one for one in cost_of_outages(scenario("lose"))}
    assert found["slo_attainment"].b < found["slo_attainment"].a


def test_a_scenario_without_them_has_none() -> None:
    given = scenario()
    assert has_outages(given) and not has_outages(without_outages(given))
    assert without_outages(without_outages(given)) == without_outages(given)


def test_the_page_says_it_where_there_are_outages() -> None:
    given = scenario(seeds=1)
    result, cost = jaxsim.run(given), cost_of_outages(given)
    page = html_report(result, cost=cost)
    assert "What the outages cost" in page and "One seed, with the same requests" in page
    assert f"{cost[0].change * 100:+.1f}" in page
    assert "What the outages cost" not in html_report(result)
