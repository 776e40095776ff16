"""Draws that are shared out between seeds make means surer, and intervals know it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jaxsim.simulate
from jaxsim.analysis.compare import compare
from jaxsim.analysis.monte_carlo import monte_carlo
from jaxsim.analysis.scenarios import changed, resized
from jaxsim.analysis.statistics import Sample, Statistic
from jaxsim.config.errors import ScenarioError
from jaxsim.simulate import run, run_many
from tests.analysis import engines

STRATIFIED = {"monte_carlo.draws": "stratified"}


def width(summary: Any, metric: str, part: str) -> float:
    low, high = summary[metric][f"{part}_ci"]
    return high - low


def test_means_are_surer_and_intervals_know_it() -> None:
    scenario = engines.chat(rate=10.0, num_requests=40, seeds=256)
    free, shared = (run(one).summary for one in (scenario, changed(scenario, STRATIFIED)))
    assert (free["ci_clusters"], shared["ci_clusters"]) == (256, 16)
    for metric, share in (("e2e_s", 0.6), ("tpot_s", 0.85)):
        assert width(shared, metric, "mean") < share * width(free, metric, "mean")
        assert abs(shared[metric]["mean"] - free[metric]["mean"]) < width(free, metric, "mean")


def test_their_intervals_cover() -> None:
    """Of 40 runs of 128 seeds, at least 34 intervals hold the mean of all (fewer have probability 1e-3 at 95 %)."""
    base = changed(engines.chat(rate=10.0, num_requests=20, seeds=128), STRATIFIED)
    summaries = [result.summary for result in run_many([resized(base, first_seed=128 * k) for k in range(40)])]
    for metric, part in (("e2e_s", "mean"), ("ttft_s", "mean"), ("ttft_s", "p90")):
        truth = np.mean([summary[metric][part] for summary in summaries])
        covered = [low <= truth <= high for low, high in (summary[metric][f"{part}_ci"] for summary in summaries)]
        assert sum(covered) >= 34, (metric, part, sum(covered))


def test_sketches_gaps_and_chunks_group_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = changed(engines.chat(rate=10.0, num_requests=20, seeds=144), STRATIFIED)
    whole = run(scenario).summary
    monkeypatch.setattr(jaxsim.simulate, "REQUESTS_PER_CHUNK", 20 * 40)
    assert run(scenario).summary == whole
    result = run(scenario, keep_requests=True)
    sample = Sample.of(result, scenario)
    assert len(sample.good) == 9 and sample.good.shape[1] == 16 * 20
    value, low, high = Statistic.parse("e2e_s.mean").measure(sample)
    assert value == pytest.approx(whole["e2e_s"]["mean"]) and (low, high) == pytest.approx(whole["e2e_s"]["mean_ci"])
    late = sample.part(0.5, 1.0).values["ttft_s"].mean()
    assert result.requests is not None
    assert late == pytest.approx(result.requests.ttft_s[:, 10:].mean())
    monkeypatch.setattr("jaxsim.gathered.EXACT_LIMIT", 100)
    sketched = run(scenario).summary
    assert sketched["ci_clusters"] == 9
    assert width(sketched, "e2e_s", "p50") == pytest.approx(width(whole, "e2e_s", "p50"), rel=0.2)


def test_few_seeds_are_taken_for_independent() -> None:
    scenario = changed(engines.chat(seeds=32), STRATIFIED)
    assert run(scenario).summary["ci_clusters"] == 32
    answer = compare(scenario, changed(scenario, {"scheduler.max_num_batched_tokens": 512}), ["e2e_s.mean"])
    assert answer.differences[0].seeds == 32


def test_monte_carlo_needs_fewer_requests() -> None:
    scenario = engines.chat(rate=10.0, num_requests=50)
    both = (scenario, changed(scenario, STRATIFIED))
    free, shared = (monte_carlo(one, {"e2e_s.mean": 0.004}, horizon="terminating") for one in both)
    assert free.met and shared.met and shared.simulated_requests < 0.6 * free.simulated_requests


def test_a_trace_cannot_be_stratified(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0.0,5,5\n1.0,5,5\n")
    trace = {"kind": "trace", "path": str(tmp_path / "t.csv"), "resample": "block_bootstrap"}
    with pytest.raises(ScenarioError, match=r"monte_carlo\.draws: stratified needs a workload of kind synthetic"):
        run(changed(engines.chat(), {**STRATIFIED, "workload": trace}))
