"""Several runs at once are what each is alone."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jaxsim.simulate
from jaxsim.analysis.scenarios import changed
from jaxsim.config.io import load_scenario
from jaxsim.config.schema import Scenario
from jaxsim.job import Job
from jaxsim.metrics import RequestTable
from jaxsim.result import Result
from jaxsim.simulate import run, run_each, run_many
from tests.simulate import chunks

TIMINGS = ("compile_seconds", "run_seconds", "total_seconds", "rounds")
CHANGES: list[dict[str, Any]] = [
    {},
    {"workload.arrivals.rate": 9.0},
    {"latency.base_s": 6e-3, "monte_carlo.first_seed": 3},
    {"scheduler.max_num_seqs": 6, "monte_carlo.seeds": 5},
    {"kv_cache.num_blocks": None, "workload.num_requests": 25},
    {"cluster.instances.0.count": 1, "monte_carlo.warmup_requests": 7},
    {"cluster.router": {"kind": "round_robin"}, "monte_carlo.seeds": 1},
    {"scheduler.async_scheduling": True},
    {"scheduler.max_num_seqs": 30, "kv_cache.num_blocks": 800},
    {"scheduler.max_num_seqs": 31, "kv_cache.num_blocks": 100_000},
    {"cluster.router": {"kind": "least_outstanding"}, "monte_carlo.seeds": 8},
    {"cluster.router": {"kind": "least_outstanding"}, "workload.arrivals.rate": 20.0, "monte_carlo.seeds": 8},
]


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> list[Scenario]:
    folder = tmp_path_factory.mktemp("scenarios")
    scenario = load_scenario(chunks.write(folder))
    trace = folder / "trace.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{i / 20},{9 + i},7\n" for i in range(30)))
    replay = changed(scenario, {"workload": {"kind": "trace", "path": str(trace)}, "monte_carlo.seeds": 3})
    return [*(changed(scenario, values) for values in CHANGES), replay]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxsim.simulate, "REQUESTS_PER_CHUNK", 500)


def facts(result: Result) -> dict[str, Any]:
    return {key: value for key, value in result.manifest.items() if key not in TIMINGS}


def test_each_is_what_it_is_alone_to_the_last_bit(scenarios: list[Scenario]) -> None:
    together = run_many(scenarios, keep_requests=True)
    for scenario, result in zip(scenarios, together, strict=True):
        alone = run(scenario, keep_requests=True)
        assert result.summary == alone.summary
        assert facts(result) == facts(alone)
        assert result.requests is not None and alone.requests is not None
        for field in dataclasses.fields(RequestTable):
            mine, its = getattr(result.requests, field.name), getattr(alone.requests, field.name)
            np.testing.assert_array_equal(mine, its, err_msg=field.name)


def test_no_more_requests_than_a_chunk_are_simulated_at_once(
    scenarios: list[Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    real = jaxsim.simulate.simulate_together

    def simulate(parts: list[tuple[Job, np.ndarray]], progress: Any) -> Any:
        sizes.append(sum(len(places) * job.num_requests for job, places in parts))
        return real(parts, progress)

    monkeypatch.setattr(jaxsim.simulate, "simulate_together", simulate)
    shares: list[float] = []
    results = run_many(scenarios, progress=shares.append)
    assert all(result.requests is None for result in results)
    assert sum(sizes) == sum(result.summary["num_requests"] for result in results)
    assert max(sizes) <= 500 and sum(sizes) / len(sizes) > 300
    assert shares == sorted(shares) and shares[-1] == pytest.approx(1.0)


def test_interrupted_it_keeps_what_had_finished(scenarios: list[Scenario], monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = jaxsim.simulate.simulate_together, iter(range(10**9))

    def simulate(parts: list[tuple[Job, np.ndarray]], progress: Any) -> Any:
        if next(calls) == 4:
            raise KeyboardInterrupt
        return real(parts, progress)

    def until_interrupted() -> Iterator[Result]:
        try:
            yield from run_each(scenarios)
        except KeyboardInterrupt:
            pass

    monkeypatch.setattr(jaxsim.simulate, "simulate_together", simulate)
    finished = list(until_interrupted())
    assert 0 < len(finished) < len(scenarios)
    assert [result.summary for result in finished] == [run(scenario).summary for scenario in scenarios[: len(finished)]]


def test_nothing_is_nothing(tmp_path: Path) -> None:
    assert run_many([]) == []
