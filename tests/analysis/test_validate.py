"""Validation: what jaxsim itself simulated validates without error, and a known error is found."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from jaxsim.analysis.validate import METRICS, STATISTICS, validate
from jaxsim.config.io import parse_scenario
from jaxsim.config.schema import Scenario
from jaxsim.result import Result
from jaxsim.simulate import run
from jaxsim.workload import Trace

LATENCY = {"kind": "linear", "base_s": 0.01, "per_token_s": 2e-5}


def scenario(slower: float = 1.0, **more: object) -> Scenario:
    latency = {key: value * slower if isinstance(value, float) else value for key, value in LATENCY.items()}
    return parse_scenario(
        {
            "workload": {
                "kind": "synthetic",
                "num_requests": 200,
                "arrivals": {"kind": "poisson", "rate": 10.0},
                "prompt_tokens": {"kind": "uniform", "min": 10, "max": 500},
                "output_tokens": {"kind": "uniform", "min": 1, "max": 40},
            },
            "cluster": {
                "instances": [{"latency": latency, "scheduler": {"kind": "vllm_v1", "async_scheduling": False}}]
            },
            **more,
        }
    )


@pytest.fixture(scope="module")
def truth() -> Result:
    """What the fleet did, which the tests take for a measurement."""
    return run(scenario())


@pytest.fixture(scope="module")
def measured(truth: Result, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("measured")
    truth.save(folder)
    return Trace(path=folder / "requests.csv")


def test_the_truth_validates_without_error(measured: Trace) -> None:
    answer = validate(scenario(), measured)
    assert answer.requests == 200
    for metric in METRICS:
        for statistic in STATISTICS:
            error = answer.error(metric, statistic)
            assert (metric == "itl_s" and np.isnan(error) == (statistic != "mean")) or abs(error) < 1e-9
    assert answer.error("itl_s", "mean") == pytest.approx(0, abs=1e-9)
    assert all(error < 1e-9 for error in answer.per_request.values())


def test_a_slower_clock_is_found(measured: Trace) -> None:
    """10 % slower iterations make decoding 10 % slower; queues add to that."""
    answer = validate(scenario(1.1), measured)
    assert answer.error("tpot_s", "mean") == pytest.approx(0.1, abs=0.03)
    assert answer.error("e2e_s", "p50") > 0.05 and answer.per_request["e2e_s"] > 0.05
    assert answer.sentences[0].startswith("The largest error is +")


def test_warm_up_is_left_out_of_both(measured: Trace, truth: Result) -> None:
    answer = validate(scenario(), measured, warmup_requests=150)
    table = truth.requests
    assert table is not None and answer.requests == 50
    assert answer.measured["ttft_s"]["mean"] == pytest.approx(table.ttft_s[0, 150:].mean())
    assert answer.simulated["ttft_s"]["mean"] == pytest.approx(table.ttft_s[0, 150:].mean())
    of_scenario = validate(scenario(monte_carlo={"warmup_requests": 150}), measured)
    assert of_scenario.measured == answer.measured
    with pytest.raises(ValueError, match=r"warmup_requests \(200\) must be less than the number of measured requests"):
        validate(scenario(), measured, warmup_requests=200)


def test_which_stamp_is_the_arrival(tmp_path: Path) -> None:
    rows = "".join(f"{i}.0,100,5,{i}.25,{i}.5,{i + 1}.0\n" for i in range(20))
    (tmp_path / "m.csv").write_text(f"arrival_s,prompt_tokens,output_tokens,queued_s,first_token_s,finish_s\n{rows}")
    client = validate(scenario(), Trace(path=tmp_path / "m.csv"))
    queued = validate(scenario(), Trace(path=tmp_path / "m.csv"), arrival_stamp="queued")
    assert client.measured["ttft_s"]["mean"] == 0.5 and queued.measured["ttft_s"]["mean"] == 0.25
    assert client.measured["tpot_s"] == queued.measured["tpot_s"]
    (tmp_path / "n.csv").write_text(
        "arrival_s,prompt_tokens,output_tokens,queued_s,first_token_s,finish_s\n0,1,1,0.5,1,1\n1,1,1,,2,2\n"
    )
    with pytest.raises(ValueError, match="no queued_s in at least one row; use --arrival-stamp client"):
        validate(scenario(), Trace(path=tmp_path / "n.csv"), arrival_stamp="queued")


def bench(truth: Result) -> dict[str, object]:
    """The truth as `vllm bench serve --save-detailed` would have written it."""
    table = truth.requests
    assert table is not None
    gaps = [[float(tpot)] * (n - 1) for tpot, n in zip(table.tpot_s[0], table.output_tokens[0], strict=True)]
    return {
        "input_lens": table.prompt_tokens[0].tolist(),
        "output_lens": table.output_tokens[0].tolist(),
        "start_times": (table.arrival_s[0] + 5e4).tolist(),
        "ttfts": table.ttft_s[0].tolist(),
        "itls": gaps,
        "errors": [""] * 200,
        "mean_ttft_ms": 1e3 * float(table.ttft_s.mean()),
    }


def test_the_result_of_a_benchmark(truth: Result, tmp_path: Path) -> None:
    (tmp_path / "bench.json").write_text(json.dumps(bench(truth)))
    answer = validate(scenario(), Trace(path=tmp_path / "bench.json"))
    for metric in ("ttft_s", "tpot_s", "e2e_s"):
        assert answer.error(metric, "mean") == pytest.approx(0, abs=1e-5)  # the report has nanoseconds
    assert answer.error("itl_s", "mean") == pytest.approx(0, abs=1e-5)
    assert abs(answer.error("itl_s", "p50")) < 0.2


def test_a_benchmark_without_start_times_is_compared_with_the_scenarios_own_workload(
    truth: Result, tmp_path: Path
) -> None:
    content = {key: value for key, value in bench(truth).items() if key != "start_times"}
    (tmp_path / "bench.json").write_text(json.dumps(content))
    answer = validate(scenario(), Trace(path=tmp_path / "bench.json"))
    assert "does not say when requests arrived: the scenario's own workload was simulated" in answer.warnings[-1]
    assert answer.per_request == {} and answer.error("ttft_s", "p90") == pytest.approx(0, abs=1e-5)


def test_statistics_of_a_benchmark(truth: Result, tmp_path: Path) -> None:
    summary = truth.summary
    names = {"ttft_s": "ttft", "tpot_s": "tpot", "itl_s": "itl", "e2e_s": "e2el"}
    content = {f"mean_{name}_ms": 1e3 * summary[metric]["mean"] for metric, name in names.items()}
    content |= {f"median_{name}_ms": 1e3 * summary[metric]["p50"] for metric, name in names.items()}
    content |= {f"p99_{name}_ms": 2e3 * summary[metric]["p99"] for metric, name in names.items()}
    (tmp_path / "bench.json").write_text(json.dumps(content))
    answer = validate(scenario(), Trace(path=tmp_path / "bench.json"))
    for metric in METRICS:
        assert answer.error(metric, "mean") == pytest.approx(0, abs=1e-9)
        assert answer.error(metric, "p50") == pytest.approx(0, abs=1e-9)
        assert answer.error(metric, "p99") == pytest.approx(-0.5)
        assert np.isnan(answer.error(metric, "p90"))
    assert "no requests, only statistics" in answer.warnings[0] and answer.requests == 0
    pytest.importorskip("matplotlib")
    answer.plot()


def test_a_request_without_an_end_is_named(measured: Trace, tmp_path: Path) -> None:
    lines = Path(measured.path).read_text().splitlines()
    cells = lines[5].split(",")
    cells[lines[0].split(",").index("finish_s")] = ""
    (tmp_path / "m.csv").write_text("\n".join([*lines[:5], ",".join(cells), *lines[6:]]))
    answer = validate(scenario(), Trace(path=tmp_path / "m.csv"))
    assert "1 of 200 measured requests have no end" in answer.warnings[-1]


def test_what_is_no_measurement(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,1,1\n")
    with pytest.raises(ValueError, match="no measured latencies; a file of requests needs first_token_s and finish_s"):
        validate(scenario(), Trace(path=tmp_path / "t.csv"))


def test_rows_json_and_picture(measured: Trace, tmp_path: Path) -> None:
    answer = validate(scenario(1.05), measured)
    assert len(answer.rows) == 16
    assert json.loads(answer.to_json())["measured"]["itl_s"]["p99"] is None
    pytest.importorskip("matplotlib")
    written = answer.save(tmp_path)
    assert [path.name for path in written] == ["validate.json", "validate.csv", "validate.png"]
    assert len(answer.plot().lines) == 6
    assert dataclasses.replace(answer, per_request={}).sentences[-1].startswith("E2E")
