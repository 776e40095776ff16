"""Sweeps: the same as single runs, one program for points of equal structure, finished points kept."""

import importlib.util
from typing import Any

import pytest

import jaxsim.analysis.sweep
from jaxsim.analysis.scenarios import changed
from jaxsim.analysis.sweep import sweep
from jaxsim.engine.programs import PROGRAMS
from jaxsim.simulate import run, run_many
from tests.analysis import engines

BASE = engines.chat(slo={"ttft_s": {"p99": 0.3}})
BUDGETS = {"scheduler.max_num_batched_tokens": [128, 256, 512]}


def test_every_point_is_what_a_run_of_it_says() -> None:
    answer = sweep(BASE, {**BUDGETS, "workload.arrivals.rate": [10, 20]})
    assert len(answer.rows) == 6
    for row in answer.rows:
        values = {key: row[key] for key in answer.keys}
        summary = run(changed(BASE, values)).summary
        assert row["ttft_s.p99"] == summary["ttft_s"]["p99"]
        assert [row["e2e_s.mean_low"], row["e2e_s.mean_high"]] == summary["e2e_s"]["mean_ci"]
        assert row["goodput_per_accelerator"] == summary["goodput_requests_per_s"]
    frame = answer.to_pandas()
    assert list(frame.columns[:2]) == list(answer.keys) and len(frame) == 6


def test_percentiles_beyond_those_of_the_summary() -> None:
    answer = sweep(BASE, BUDGETS, latency="e2e_s.p99.9", statistics=["ttft_s.p75", "itl_s.p99", "attainment"])
    for row in answer.rows:
        values = {key: row[key] for key in answer.keys}
        result = run(changed(BASE, values), percentiles={"ttft_s": ["p75"], "e2e_s": ["p99.9"]})
        assert row["e2e_s.p99.9"] == result.summary["e2e_s"]["p99.9"] > row["e2e_s.p99"]
        assert [row["ttft_s.p75_low"], row["ttft_s.p75_high"]] == result.summary["ttft_s"]["p75_ci"]
        assert row["itl_s.p99"] == result.summary["itl_s"]["p99"]
        assert row["slo_attainment"] == result.summary["slo_attainment"]
    with pytest.raises(ValueError, match="percentiles of ttft_s must be such as p99.9"):
        run(BASE, percentiles={"ttft_s": ["99.9"]})
    with pytest.raises(ValueError, match="percentiles must be of ttft_s"):
        run(BASE, percentiles={"ttft": ["p99.9"]})


def test_points_of_equal_structure_share_their_programs() -> None:
    sweep(BASE, {"latency.base_s": [5e-3, 6e-3]})
    compiled = len(PROGRAMS)
    sweep(BASE, {"latency.base_s": [7e-3, 8e-3], "latency.per_token_s": [1e-5, 2e-5]}, how="zip")
    assert len(PROGRAMS) == compiled


def test_zip_takes_values_together() -> None:
    answer = sweep(BASE, {"scheduler.max_num_seqs": [4, 8], "workload.arrivals.rate": [5, 10]}, how="zip")
    assert [tuple(values.values()) for values in answer.values] == [(4, 5), (8, 10)]


def test_a_value_may_be_a_section() -> None:
    bursty = {"kind": "gamma", "rate": 10.0, "cv": 3.0}
    answer = sweep(BASE, {"workload.arrivals": [{"kind": "poisson", "rate": 10.0}, bursty]})
    assert answer.rows[1]["workload.arrivals"] == '{"kind": "gamma", "rate": 10.0, "cv": 3.0}'
    assert answer.rows[1]["ttft_s.p99"] > answer.rows[0]["ttft_s.p99"]


def test_the_front_is_what_nothing_beats() -> None:
    answer = sweep(BASE, {"workload.arrivals.rate": [5, 10, 20, 40, 80], "scheduler.max_num_seqs": [2, 32]})
    points = [(row["ttft_s.p99"], row["goodput_per_accelerator"]) for row in answer.rows]
    for place, (latency, output) in enumerate(points):
        beaten = any(
            (other[0] <= latency and other[1] > output) or (other[0] < latency and other[1] >= output)
            for other in points
        )
        assert answer.rows[place]["pareto"] != beaten


def test_ctrl_c_keeps_the_points_that_had_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(scenarios: Any, **options: Any) -> Any:
        yield from run_many(scenarios[:2], **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(jaxsim.analysis.sweep, "run_each", interrupted)
    answer = sweep(BASE, {"workload.arrivals.rate": [5, 10, 20, 40]})
    assert answer.interrupted and [values["workload.arrivals.rate"] for values in answer.values] == [5, 10]
    assert "2 of 4 points" in answer.sentences[0]


@pytest.mark.parametrize(
    ("vary", "how", "message"),
    [
        ({}, "grid", "vary must name"),
        ({"scheduler.max_num_seqs": []}, "grid", "vary must name"),
        ({"scheduler.max_num_seq": [1]}, "grid", "did you mean max_num_seqs"),
        ({"scheduler.max_num_seqs": [0]}, "grid", "max_num_seqs"),
        ({"scheduler.max_num_seqs": [1, 2], "workload.arrivals.rate": [1]}, "zip", "equally many"),
        ({"scheduler.max_num_seqs": [1]}, "random", "how must be grid or zip"),
    ],
)
def test_bad_input_is_named_before_anything_runs(vary, how, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sweep(BASE, vary, how=how)


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="ray is an optional extra")
@pytest.mark.filterwarnings("default")
def test_a_local_ray_cluster_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxsim.analysis.sweep, "_BLOCK_REQUESTS", 1)
    assert sweep(BASE, BUDGETS, ray="local").to_csv() == sweep(BASE, BUDGETS).to_csv()


def test_ray_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(ValueError, match=r"jaxsim-serving\[ray\]"):
        sweep(BASE, BUDGETS, ray="local")
