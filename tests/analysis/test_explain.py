"""The fidelity ladder."""

import pytest

from jaxsim.analysis.explain import RULE, explain
from jaxsim.analysis.scenarios import changed
from jaxsim.simulate import run
from tests.analysis import engines


def test_every_rung_with_its_error() -> None:
    scenario = engines.chat(rate=25.0, num_requests=400)
    answer = explain(scenario)
    assert [rung.name for rung in answer.rungs] == [
        "fixed batch",
        "initial batch",
        "mean lengths",
        "mean field",
        "M/M/c",
        "simulation",
    ]
    rows = {row["model"]: row for row in answer.rows}
    summary = run(scenario).summary
    assert rows["simulation"]["ttft_p99_s"] == summary["ttft_s"]["p99"] and rows["simulation"]["ttft_p99_error"] == 0
    assert abs(rows["mean field"]["tpot_mean_error"]) < 0.05  # a mean batch is enough for a mean
    assert rows["fixed batch"]["tpot_mean_error"] > 0.05  # a full batch is not the batch
    assert rows["mean lengths"]["ttft_p99_error"] < -0.3  # the tail comes from the lengths
    assert rows["mean field"]["ttft_p99_s"] is None and rows["M/M/c"]["tpot_p99_error"] is None
    assert (
        answer.sentences[0] == RULE
        and "mean field" in answer.sentences[1]
        and "only the simulation" in answer.sentences[3]
    )


def test_one_slot_and_fixed_lengths_need_no_ladder() -> None:
    rows = {row["model"]: row for row in explain(engines.m_d_1(0.3, num_requests=400, seeds=16)).rows}
    assert rows["mean lengths"]["ttft_p99_error"] == 0
    for model in ("fixed batch", "initial batch", "mean field", "M/M/c"):
        assert rows[model]["tpot_mean_error"] == pytest.approx(0, abs=1e-6)


def test_overload_and_missing_rates_are_said() -> None:
    answer = explain(engines.m_d_1(1.5, num_requests=400, seeds=16))
    assert "does not keep up" in answer.warnings[0] and answer.rows[4]["ttft_mean_s"] is None
    with pytest.raises(ValueError, match="no long-run arrival rate"):
        explain(engines.chat(arrivals={"kind": "piecewise", "times_s": [0.0], "rates": [3.0]}))


def test_a_trace_has_no_mean_lengths(tmp_path) -> None:
    trace = tmp_path / "trace.csv"
    rows = [f"{i * 0.05},10,{5 + i % 7}" for i in range(100)]
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    answer = explain(changed(engines.chat(), {"workload": {"kind": "trace", "path": str(trace)}}))
    assert "mean lengths" not in [rung.name for rung in answer.rungs]
