"""The summary on runs small enough to work out by hand."""

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from jaxsim._status import LaneStatus, RequestStatus
from jaxsim.metrics import Accumulator, RequestTable, ServiceClass
from jaxsim.metrics.request_table import BREAKDOWN
from jaxsim.specs import Slo
from tests.metrics.tables import EDGES_S, accumulated, random_table, table, totals

NEVER = np.nan
DONE, REJECTED, UNFINISHED, LOST, ABORTED = RequestStatus


@pytest.fixture
def two_seeds() -> RequestTable:
    """TTFT 1, 2, 3, 4 s and 2, 4, 6, 8 s; TPOT 0.5 s; end-to-end 2, 3, 4, 5 and 3, 5, 7, 9 s."""
    arrival = np.array([[0.0, 1.0, 2.0, 3.0], [0.0, 2.0, 4.0, 6.0]])
    ttft = np.array([[1.0, 2.0, 3.0, 4.0], [2.0, 4.0, 6.0, 8.0]])
    return table(
        arrival_s=arrival,
        first_scheduled_s=arrival + ttft / 2,
        first_token_s=arrival + ttft,
        finish_s=arrival + ttft + 1,
        output_tokens=3,
    )


def test_latencies_and_rates(two_seeds: RequestTable) -> None:
    summary = accumulated(two_seeds).summary()
    ttft = [1, 2, 3, 4, 2, 4, 6, 8]
    assert summary["ttft_s"]["count"] == 8
    assert summary["ttft_s"]["mean"] == pytest.approx(3.75)
    assert summary["ttft_s"]["mean_ci"] == pytest.approx(
        [max(0, x) for x in stats.t.interval(0.95, 1, loc=3.75, scale=stats.sem([2.5, 5.0]))]
    )
    for statistic, share in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)):
        assert summary["ttft_s"][statistic] == pytest.approx(np.quantile(ttft, share))
    assert summary["queue_s"]["mean"] == pytest.approx(3.75 / 2)
    assert summary["e2e_s"]["mean"] == pytest.approx(4.75)
    assert summary["tpot_s"]["mean"] == summary["itl_s"]["mean"] == pytest.approx(0.5)
    makespans = np.array([8.0, 15.0])
    assert summary["throughput_requests_per_s"] == pytest.approx(np.mean(4 / makespans))
    assert summary["throughput_tokens_per_s"] == pytest.approx(np.mean(12 / makespans))
    expected = stats.t.interval(0.95, 1, loc=np.mean(4 / makespans), scale=stats.sem(4 / makespans))
    assert summary["throughput_requests_per_s_ci"] == pytest.approx([0.0, expected[1]])
    assert summary["kv_utilisation"] == 0.5
    assert (summary["num_requests"], summary["num_completed"], summary["seeds"]) == (8, 8, 2)
    assert (summary["ci_method"], summary["ci_clusters"]) == ("replications", 2)


def test_attainment_and_goodput(two_seeds: RequestTable) -> None:
    """TTFT at most 4 s: 4 of 4 and 2 of 4. Rates 3 gaps / 3 s and 3 / 6 s."""
    slo = Slo(ttft_s=4.0, tpot_s=0.6)
    summary = accumulated(two_seeds, slo=slo).summary()
    assert summary["slo_attainment"] == 6 / 8
    assert summary["arrival_rate_per_s"] == pytest.approx(0.75)
    assert summary["goodput_requests_per_s"] == pytest.approx(np.mean([1.0 * 1.0, 0.5 * 0.5]))
    assert summary["goodput_tokens_per_s"] == pytest.approx(3 * np.mean([1.0 * 1.0, 0.5 * 0.5]))
    nominal = accumulated(two_seeds, slo=slo, rate_per_s=0.8).summary()
    assert nominal["goodput_requests_per_s"] == pytest.approx(0.8 * 6 / 8)
    assert nominal["goodput_requests_per_s_ci"] == pytest.approx([0.8 * x for x in summary["slo_attainment_ci"]])
    assert nominal["goodput_tokens_per_s"] == pytest.approx(3 * 0.8 * 6 / 8)


def test_a_request_must_meet_every_threshold_and_undefined_tpot_passes() -> None:
    requests = table(
        arrival_s=np.zeros(5),
        output_tokens=[3, 3, 1, 1, 3],
        first_token_s=[1.0, 1.0, 1.0, 2.0, 1.0],
        finish_s=[2.0, 4.0, 1.0, 2.0, 2.5],
    )
    for slo, good in (
        (Slo(ttft_s=1.0), 4),
        (Slo(ttft_s=1.0, tpot_s=0.5), 2),
        (Slo(ttft_s=1.0, tpot_s=0.5, e2e_s=1.5), 1),
        (Slo(tpot_s={"mean": 0.1, "p99": 0.75}), 4),
        (Slo(e2e_s=4.0, itl_s=1e-9), 5),
    ):
        assert accumulated(requests, slo=slo, units="batches").summary()["slo_attainment"] == good / 5, slo


def test_burst_has_the_rate_of_its_makespan() -> None:
    requests = table(arrival_s=np.zeros(5), finish_s=10.0)
    summary = accumulated(requests, slo=Slo(ttft_s=5.0), units="batches").summary()
    assert summary["arrival_rate_per_s"] == summary["goodput_requests_per_s"] == 0.5


def test_no_slo_no_attainment(two_seeds: RequestTable) -> None:
    for slo in (Slo(), Slo(itl_s=0.1)):
        summary = accumulated(two_seeds, slo=slo).summary()
        assert summary["slo_attainment"] is summary["goodput_requests_per_s"] is summary["goodput_tokens_per_s"] is None
        assert summary["slo_attainment_ci"] is summary["goodput_tokens_per_s_ci"] is None


@pytest.mark.parametrize("status", [REJECTED, UNFINISHED, LOST, ABORTED])
@pytest.mark.parametrize("exact_limit", [0, 10**6])
def test_requests_that_did_not_complete_are_counted_and_never_averaged_in(
    status: RequestStatus, exact_limit: int
) -> None:
    """The second of three requests has terrible times, and they show nowhere but in the counts."""
    requests = table(
        arrival_s=[0.0, 1.0, 2.0],
        output_tokens=[2, 7, 2],
        first_scheduled_s=[0.0, 50.0, 2.0],
        first_token_s=[1.0, 100.0, 3.0],
        finish_s=[2.0, NEVER, 4.0],
        status=[DONE, status, DONE],
    )
    accumulator = Accumulator(Slo(ttft_s=1.0), itl_edges_s=EDGES_S, units="batches", exact_limit=exact_limit)
    accumulator.add(requests, totals(requests, makespan_s=5.0))
    summary = accumulator.summary()
    assert summary["status_counts"][status.name.lower()] == 1 and summary["num_completed"] == 2
    assert summary["num_requests"] == summary["num_measured"] == 3
    for metric, value in (("ttft_s", 1.0), ("tpot_s", 1.0), ("itl_s", 1.0), ("e2e_s", 2.0), ("queue_s", 0.0)):
        assert summary[metric]["count"] == 2
        for statistic in ("mean", "p50", "p99"):
            assert summary[metric][statistic] == pytest.approx(value, rel=summary[metric]["relative_error"] + 1e-9)
    assert summary["slo_attainment"] == pytest.approx(2 / 3)
    assert summary["throughput_requests_per_s"] == 2 / 5
    assert summary["throughput_tokens_per_s"] == 4 / 5
    assert summary["goodput_tokens_per_s"] == pytest.approx(2 / 3 * 1.0 * 2)
    assert any(f"1 of 3 requests {status.name.lower()}" in warning for warning in summary["warnings"])


def test_warm_up_is_not_measured(two_seeds: RequestTable) -> None:
    summary = accumulated(two_seeds, slo=Slo(ttft_s=4.0), warmup_requests=2).summary()
    assert (summary["num_requests"], summary["num_measured"]) == (8, 4)
    assert summary["ttft_s"]["count"] == 4
    assert summary["ttft_s"]["mean"] == pytest.approx(np.mean([3, 4, 6, 8]))
    assert summary["ttft_s"]["p50"] == pytest.approx(np.median([3, 4, 6, 8]))
    assert summary["slo_attainment"] == 0.5
    assert summary["throughput_requests_per_s"] == pytest.approx(np.mean([4 / 8, 4 / 15]))
    with pytest.raises(ValueError, match=r"warmup_requests \(4\) must be less than the number of requests \(4\)"):
        accumulated(two_seeds, warmup_requests=4)


def test_preemptions_are_counted_with_an_interval(two_seeds: RequestTable) -> None:
    none = accumulated(two_seeds).summary()
    assert none["preemptions"] == 0
    assert none["preemptions_ci"] == pytest.approx([0.0, -math.log(0.025)])
    some = table(arrival_s=[[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]], preemptions=[[1, 0], [2, 2], [0, 1]])
    summary = accumulated(some).summary()
    half = stats.t.ppf(0.975, 2) * stats.sem([1, 4, 1]) * 3
    assert summary["preemptions"] == 6
    assert summary["preemptions_ci"] == pytest.approx([max(0.0, 6 - half), 6 + half])


def test_unlimited_memory_has_no_utilisation(two_seeds: RequestTable) -> None:
    accumulator = Accumulator(itl_edges_s=EDGES_S)
    accumulator.add(two_seeds, totals(two_seeds, kv_capacity_token_seconds=np.full(2, NEVER)))
    summary = accumulator.summary()
    assert summary["kv_utilisation"] is None and summary["kv_utilisation_ci"] is None


def test_one_run_is_cut_into_batches_of_consecutive_requests() -> None:
    requests = random_table(np.random.default_rng(3), seeds=1, requests=200)
    summary = accumulated(requests, units="batches", slo=Slo(ttft_s=0.5)).summary()
    assert (summary["ci_method"], summary["ci_clusters"]) == ("batch_means", 20)
    means = requests.ttft_s.reshape(20, 10).mean(axis=1)
    expected = stats.t.interval(0.95, 19, loc=means.mean(), scale=stats.sem(means))
    assert summary["ttft_s"]["mean_ci"] == pytest.approx(expected)
    assert summary["throughput_requests_per_s"] == pytest.approx(200 / requests.finish_s.max())
    assert summary["throughput_tokens_per_s"] == pytest.approx(requests.output_tokens.sum() / requests.finish_s.max())
    assert summary["kv_utilisation"] == pytest.approx(0.5)


def test_every_statistic_of_one_run_has_an_interval_around_it() -> None:
    requests = random_table(np.random.default_rng(4), seeds=1, requests=300)
    _check_intervals(accumulated(requests, units="batches", slo=Slo(ttft_s=0.5, tpot_s=0.03)).summary())


def test_every_statistic_of_seeds_has_an_interval_around_it() -> None:
    requests = random_table(np.random.default_rng(5), seeds=8, requests=50)
    _check_intervals(accumulated(requests, slo=Slo(ttft_s=0.5, tpot_s=0.03)).summary(), but="kv_utilisation")


def _check_intervals(summary: dict[str, Any], but: str = "") -> None:
    found = 0
    for values in (summary, *(of for of in summary.values() if isinstance(of, dict))):
        for name, interval in values.items():
            if name.endswith("_ci") and name != f"{but}_ci":
                value = values[name.removesuffix("_ci")]
                assert interval is not None, name
                assert interval[0] <= value <= interval[1] and interval[0] < interval[1], (name, value, interval)
                found += 1
    assert found >= 5 * 5 + 6


def test_copies_of_one_run_are_no_more_certain_than_the_run() -> None:
    """A trace that is not resampled is the same under every seed."""
    run = random_table(np.random.default_rng(6), seeds=1, requests=100)
    copies = RequestTable.concatenate([run, run, run])
    one, three = (accumulated(t, units="batches", slo=Slo(ttft_s=0.3)).summary() for t in (run, copies))
    for metric in ("ttft_s", "tpot_s", "e2e_s", "queue_s", "itl_s"):
        assert three[metric]["mean_ci"] == pytest.approx(one[metric]["mean_ci"]), metric
        assert three[metric]["p90_ci"] == pytest.approx(one[metric]["p90_ci"], rel=0.15), metric
    for name in ("throughput_requests_per_s_ci", "slo_attainment_ci", "goodput_tokens_per_s_ci", "kv_utilisation_ci"):
        assert three[name] == pytest.approx(one[name]), name


def test_nothing_to_tell_apart_is_null() -> None:
    for requests in (table(arrival_s=[0.0]), table(arrival_s=[[0.0, 1.0]])):
        summary = accumulated(requests).summary()
        assert summary["ttft_s"]["mean_ci"] is summary["ttft_s"]["p99_ci"] is None
        assert summary["throughput_requests_per_s_ci"] is None
        assert any("no confidence intervals" in warning for warning in summary["warnings"])


def test_nothing_completed_is_null_and_finite_json() -> None:
    requests = table(
        arrival_s=[[0.0, 1.0], [0.0, 1.0]], output_tokens=0, instance=-1, status=REJECTED,
        first_scheduled_s=NEVER, first_token_s=NEVER, finish_s=NEVER,
    )  # fmt: skip
    for units in ("seeds", "batches"):
        summary = accumulated(requests, units=units, slo=Slo(ttft_s=1.0, tpot_s={"mean": 1.0})).summary()
        json.dumps(summary, allow_nan=False)
        assert summary["ttft_s"]["mean"] is summary["ttft_s"]["p50"] is summary["tpot_s"]["mean"] is None
        assert summary["throughput_requests_per_s"] == 0.0
        assert summary["slo_attainment"] == 0.0
        assert [verdict["met"] for verdict in summary["slo_verdicts"]] == [False, None]


def test_limits_get_verdicts() -> None:
    requests = random_table(np.random.default_rng(8), seeds=16, requests=400)
    ttft = np.quantile(requests.ttft_s, 0.99)
    tpot = float(np.nanmean(requests.tpot_s))
    slo = Slo(
        ttft_s={"p99": ttft * 1.5, "p98.5": ttft * 0.5},
        tpot_s={"mean": tpot * 1.0001},
        e2e_s=ttft * 1e3,
        attainment=0.1,
    )
    summary = accumulated(requests, slo=slo).summary()
    verdicts = {(v["metric"], v["statistic"]): v for v in summary["slo_verdicts"]}
    assert [(v["met"], v["certain"]) for v in verdicts.values()][:2] == [(True, True), (False, True)]
    assert verdicts["ttft_s", "p98.5"]["value"] == summary["ttft_s"]["p98.5"]
    assert verdicts["ttft_s", "p99"]["ci"] == summary["ttft_s"]["p99_ci"]
    assert not verdicts["tpot_s", "mean"]["certain"]
    assert verdicts["slo_attainment", "share"] == {
        "metric": "slo_attainment",
        "statistic": "share",
        "limit": 0.1,
        "value": summary["slo_attainment"],
        "ci": summary["slo_attainment_ci"],
        "met": True,
        "certain": True,
    }


def test_lost_requests_count_as_infinitely_slow_in_verdicts() -> None:
    """1 of 10 lost: P80 of all is P(8/9) of the others, and P95 is beyond any limit."""
    times = np.arange(10.0)
    status = np.where(times == 9, LOST, DONE)
    requests = table(arrival_s=np.zeros(10), first_token_s=times, finish_s=20.0, status=status)
    slo = Slo(ttft_s={"p80": 100.0, "p95": 100.0})
    first, second = accumulated(requests, units="batches", slo=slo).summary()["slo_verdicts"]
    assert first["value"] == pytest.approx(np.quantile(times[:9], 0.8 * 10 / 9)) and first["met"]
    assert second["value"] is None and second["met"] is False and second["certain"]


def test_a_limit_met_only_for_want_of_requests_is_not_certain() -> None:
    requests = random_table(np.random.default_rng(9), seeds=1, requests=50)
    (verdict,) = accumulated(requests, units="batches", slo=Slo(ttft_s=1e3)).summary()["slo_verdicts"]
    assert verdict["met"] and not verdict["certain"]


def test_stopped_seeds_and_drifting_runs_are_told() -> None:
    requests = table(arrival_s=np.arange(100.0), finish_s=np.arange(100.0) * 2 + 1)
    accumulator = Accumulator(itl_edges_s=EDGES_S, units="batches")
    accumulator.add(requests, totals(requests, status=np.array([LaneStatus.INTERRUPTED], np.int32)))
    summary = accumulator.summary()
    assert summary["seeds_incomplete"] == 1
    assert any(f"1 of 1 seeds stopped early: {LaneStatus.INTERRUPTED.advice}" in w for w in summary["warnings"])
    assert any("too narrow" in warning for warning in summary["warnings"])


def test_transfer_in_ttft_is_refused_where_the_table_cannot_tell() -> None:
    requests = table(arrival_s=[0.0, 1.0], decode_instance=1)
    with pytest.raises(ValueError, match="ttft_includes_transfer"):
        accumulated(requests, slo=Slo(ttft_s=1.0, ttft_includes_transfer=True))


@pytest.fixture
def handed_over() -> RequestTable:
    """Two seeds of three requests, all arriving at 0. The first two are handed over: one second each in the queue, in
    prefill, for memory, for the link, in transfer and in the queue for decode, twice as long the second; the third has
    one token, after 3 s."""
    times = np.array([1.0, 2.0, np.nan])
    return table(
        arrival_s=np.zeros((2, 3)),
        output_tokens=[[2, 2, 1], [2, 2, 1]],
        decode_instance=[[1, 1, -1]] * 2,
        first_scheduled_s=[[1.0, 2.0, 1.0]] * 2,
        first_token_s=[[2.0, 4.0, 3.0]] * 2,
        kv_asked_s=2 * times,
        kv_granted_s=3 * times,
        kv_started_s=4 * times,
        kv_landed_s=5 * times,
        decode_scheduled_s=6 * times,
        finish_s=[[7.0, 14.0, 3.0]] * 2,
    )


def test_where_the_time_goes_until_the_second_token(handed_over: RequestTable) -> None:
    summary = accumulated(handed_over, handover=True).summary()
    assert summary["ttft_s"]["mean"] == 3.0
    assert (summary["ttft_with_transfer_s"]["count"], summary["ttft_with_transfer_s"]["mean"]) == (6, (6 + 12 + 3) / 3)
    for part in ("queue_prefill_s", "prefill_s", "wait_memory_s", "wait_link_s", "transfer_s", "queue_decode_s"):
        assert (summary[part]["count"], summary[part]["mean"], summary[part]["p50"]) == (4, 1.5, 1.5)
        assert summary[part]["mean_ci"] == [1.5, 1.5] and summary[part]["p99_ci"] is not None
    assert list(accumulated(handed_over).summary()) == [
        name for name in summary if name != "ttft_with_transfer_s" and name not in BREAKDOWN
    ]


def test_transfer_in_ttft_counts_for_the_slo(handed_over: RequestTable) -> None:
    limits: dict[str, Any] = {"ttft_s": {"p50": 5.0, "p99.9": 100.0}}
    without = accumulated(handed_over, slo=Slo(**limits), handover=True).summary()
    assert without["slo_attainment"] == 1.0
    limits["ttft_s"] = {"p50": 5.0}
    slo = Slo(**limits, ttft_includes_transfer=True)
    summary = accumulated(handed_over, slo=slo, handover=True).summary()
    assert summary["slo_attainment"] == pytest.approx(1 / 3)  # 6 s and 12 s are above 5 s, 3 s is not
    [verdict] = summary["slo_verdicts"]
    assert (verdict["metric"], verdict["statistic"], verdict["limit"]) == ("ttft_with_transfer_s", "p50", 5.0)
    assert (verdict["value"], verdict["met"]) == (6.0, False)
    classes = [ServiceClass("fast", slo), ServiceClass("slow", Slo(ttft_s=5.0))]
    mixed = dataclasses.replace(handed_over, class_index=np.array([[0, 1, 0]] * 2, np.int32))
    found = accumulated(mixed, classes=classes, handover=True).summary()
    assert found["slo_attainment"] == pytest.approx(2 / 3)  # only the first is late
    assert [found["classes"][name]["slo_attainment"] for name in ("fast", "slow")] == [0.5, 1.0]
    assert found["classes"]["fast"]["transfer_s"]["count"] == 2


def test_transfer_in_ttft_is_ttft_where_nothing_is_handed_over(two_seeds: RequestTable) -> None:
    slo = Slo(ttft_s=4.0, tpot_s=0.6)
    plain = accumulated(two_seeds, slo=slo).summary()
    summary = accumulated(two_seeds, slo=dataclasses.replace(slo, ttft_includes_transfer=True)).summary()
    assert summary["ttft_with_transfer_s"] == plain["ttft_s"]
    assert summary["slo_attainment_ci"] == plain["slo_attainment_ci"]
    with_metric = {"metric": "ttft_with_transfer_s"}
    assert summary["slo_verdicts"] == [plain["slo_verdicts"][0] | with_metric, plain["slo_verdicts"][1]]


@pytest.mark.parametrize("exact_limit", [0, 10**6])
def test_a_handover_survives_files_and_sketches(handed_over: RequestTable, exact_limit: int) -> None:
    settings: dict[str, Any] = {"handover": True, "exact_limit": exact_limit}
    accumulator, again = accumulated(handed_over, **settings), accumulated(**settings)
    again.add_state(accumulator.state())
    assert again.summary() == accumulator.summary()
    exact = accumulated(handed_over, handover=True).summary()
    assert again.summary()["wait_link_s"]["p90"] == pytest.approx(exact["wait_link_s"]["p90"], rel=0.01)


def test_what_preemptions_cost() -> None:
    """Of four measured requests one is preempted; 10 + 2 - 1 tokens each, and 11 again: a fifth."""
    requests = table(arrival_s=[[0.0, 1.0], [0.0, 1.0]], preemptions=[[3, 0], [0, 0]])
    accumulator = Accumulator(itl_edges_s=EDGES_S)
    accumulator.add(requests, totals(requests, recomputed_tokens=np.array([11, 0])))
    found = accumulator.summary()["preemption"]
    assert (found["requests"], found["requests_share"], found["recomputed_tokens"]) == (1, 0.25, 11)
    assert found["recomputed_share"] == 0.2
    low, high = found["requests_share_ci"]
    assert 0 <= low < 0.25 < high <= 1
    assert found["explanation"] == (
        "25 % of requests were preempted for want of KV memory, of which 50 % is in use on average, and 20 % of all "
        "tokens were computed again; see kv_cache.num_blocks"
    )


def test_nothing_lost_to_preemptions_needs_no_explanation(two_seeds: RequestTable) -> None:
    found = accumulated(two_seeds).summary()["preemption"]
    assert (found["requests"], found["requests_share"], found["recomputed_share"]) == (0, 0.0, 0.0)
    assert found["requests_share_ci"][0] == 0.0 < found["requests_share_ci"][1] and found["explanation"] is None
