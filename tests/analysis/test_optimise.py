"""The optimiser on engines whose best is known."""

import pytest

from jaxsim.analysis.optimise import optimise
from jaxsim.analysis.scenarios import changed
from jaxsim.simulate import run
from tests.analysis import engines


def test_the_highest_rate_that_keeps_a_promise_is_the_known_one() -> None:
    """M/D/1 keeps a P70 of 0.0682 s up to 6.4 requests/s: goodput grows until there, and may not beyond."""
    scenario = engines.m_d_1(0.2, num_requests=400, seeds=16, slo={"ttft_s": {"p70": 0.0682}})
    answer = optimise(scenario, {"workload.arrivals.rate": (1.0, 12.0)}, objective="throughput", trials=40)
    assert answer.best.values["workload.arrivals.rate"] == pytest.approx(6.4, rel=0.08)
    assert len(answer.rows) == 40 and answer.rows[0]["trial"] == 0
    assert answer.change is None and not answer.objective.can_be_paired


def test_mixed_parameters_and_a_paired_verdict_on_fresh_seeds() -> None:
    scenario = changed(engines.chat(rate=25.0), {"scheduler.max_num_batched_tokens": 64})
    space = {
        "scheduler.max_num_batched_tokens": (64, 2048),
        "scheduler.max_num_seqs": [8, 32],
        "latency.base_s": (4e-3, 6e-3),
    }
    answer = optimise(scenario, space, objective="ttft_s.mean", trials=24)
    best = answer.best.values
    assert isinstance(best["scheduler.max_num_batched_tokens"], int) and best["scheduler.max_num_batched_tokens"] > 128
    assert best["latency.base_s"] < 4.5e-3 and best["scheduler.max_num_seqs"] == 32
    assert answer.change is not None and answer.change_interval is not None and answer.change_interval.high < -0.2
    assert answer.best.objective < run(scenario).summary["ttft_s"]["mean"]
    assert max(trial.seeds for trial in answer.trials) == 32 and answer.best.seeds == 32


def test_a_promise_that_nothing_keeps_is_said() -> None:
    scenario = engines.chat(slo={"ttft_s": {"p50": 1e-4}})
    answer = optimise(scenario, {"scheduler.max_num_seqs": [8, 32]}, trials=4)
    assert "no configuration found keeps P50 TTFT" in answer.warnings[0] and answer.facts["keeps_slo"] is False


def test_repeated_it_is_the_same_to_the_last_bit() -> None:
    scenario = engines.chat(slo={"ttft_s": {"p90": 0.1}})
    space = {"scheduler.max_num_batched_tokens": (64, 512), "workload.arrivals.rate": (5.0, 40.0)}
    a, b = (optimise(scenario, space, trials=20).to_json() for _ in range(2))
    assert a == b


def test_bad_input_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = engines.chat()
    with pytest.raises(ValueError, match="did you mean max_num_seqs"):
        optimise(scenario, {"scheduler.max_num_seq": [1, 2]})
    with pytest.raises(ValueError, match="max_num_seqs"):
        optimise(scenario, {"scheduler.max_num_seqs": (0, 5)})
    with pytest.raises(ValueError, match="unknown statistic"):
        optimise(scenario, {"scheduler.max_num_seqs": (1, 5)}, objective="money")
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(ValueError, match=r"jaxsim-serving\[optimise\]"):
        optimise(scenario, {"scheduler.max_num_seqs": (1, 5)})
