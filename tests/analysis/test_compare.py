"""Paired comparisons."""

import pytest

from jaxsim.analysis.compare import compare
from jaxsim.analysis.scenarios import changed, resized, slower_clock
from jaxsim.simulate import run
from tests.analysis import engines


def test_a_true_difference_of_two_percent_is_found_with_eight_seeds() -> None:
    """A clock 2 % slower where nobody waits makes every token 2 % slower. Unpaired it would take hundreds of seeds."""
    a = engines.chat(rate=5.0)
    slower = {key: 1.02 * value for key, value in vars(a.cluster.instances[0].latency).items() if key.endswith("_s")}
    b = changed(a, {f"latency.{key}": value for key, value in slower.items()})
    answer = compare(a, b, ["e2e_s.mean", "tpot_s.mean"])
    for found in answer.differences:
        assert found.sure and found.change_interval is not None
        assert (
            found.change_interval.low < 0.021 < found.change_interval.high + 2e-3 and found.change_interval.low > 0.015
        )
    assert answer.differences[0].variance_reduction > 100
    assert answer.rows[0]["sure"] and "+2." in answer.sentences[0]


def test_nothing_changed_is_no_difference() -> None:
    a = engines.chat()
    answer = compare(a, a, ["ttft_s.p90"])
    assert answer.rows[0]["difference"] == 0.0 and not answer.rows[0]["sure"]
    assert "chance" in answer.sentences[0]


def test_gaps_between_tokens_are_paired_too() -> None:
    """Every gap of B is 5 % longer. Bins are 1.6 % wide and stretches are credited with their middle, so P90 is too."""
    a = engines.chat(rate=5.0, seeds=16)
    slower = {key: 1.05 * value for key, value in vars(a.cluster.instances[0].latency).items() if key.endswith("_s")}
    b = changed(a, {f"latency.{key}": value for key, value in slower.items()})
    answer = compare(a, b, ["itl_s.mean", "itl_s.p90", "itl_s.p99.9"])
    for found, result in zip(answer.differences[:2], ("mean", "p90"), strict=True):
        assert found.sure and found.change == pytest.approx(0.05, abs=0.02)
        assert found.a == pytest.approx(run(a).summary["itl_s"][result], rel=1e-12)
        assert found.variance_reduction > 2
    assert answer.differences[2].a > answer.differences[1].a


def test_the_interval_of_a_difference_covers() -> None:
    """The true change of P90 TTFT, from 640 seeds, is in at least 24 of 30 intervals from 8 seeds (95 %: 28.5)."""
    a = engines.chat(rate=15.0, seeds=640)
    b = changed(a, {"latency.base_s": 5.5e-3})
    truth = compare(a, b, ["ttft_s.p90"]).differences[0].change
    covered = 0
    for place in range(30):
        part = resized(a, seeds=8, first_seed=8 * place), resized(b, seeds=8, first_seed=8 * place)
        interval = compare(*part, ["ttft_s.p90"]).differences[0].change_interval
        assert interval is not None
        covered += interval.low <= truth <= interval.high
    assert covered >= 24


def test_precision_adds_seeds() -> None:
    a = engines.chat()
    b = changed(a, {"scheduler.max_num_batched_tokens": 512})
    answer = compare(a, b, ["ttft_s.mean"], precision=0.005)
    ci = answer.differences[0].change_interval
    assert answer.differences[0].seeds > 8 and ci is not None and (ci.high - ci.low) / 2 <= 0.005


def test_what_cannot_be_paired_is_refused(tmp_path) -> None:
    a = engines.chat()
    with pytest.raises(ValueError, match="throughput_requests_per_s cannot be paired"):
        compare(a, a, ["throughput"])
    trace = tmp_path / "t.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0.0,5,5\n1.0,5,5\n")
    replay = changed(a, {"workload": {"kind": "trace", "path": str(trace)}})
    with pytest.raises(ValueError, match="block_bootstrap"):
        compare(replay, replay)


def test_a_slower_clock_is_faster_arrivals() -> None:
    a = engines.chat(slo={"ttft_s": {"p99": 0.1}, "tpot_s": {"mean": 0.01}})
    slower = {key: 2 * value for key, value in vars(a.cluster.instances[0].latency).items() if key.endswith("_s")}
    direct = run(changed(a, {f"latency.{key}": value for key, value in slower.items()})).summary
    equivalent, seconds = slower_clock(a, 2.0)
    summary = run(equivalent).summary
    assert summary["ttft_s"]["p99"] * seconds == pytest.approx(direct["ttft_s"]["p99"], rel=1e-9)
    assert summary["slo_attainment"] == direct["slo_attainment"] < 1
