"""What was going on around a request, and what sets slow requests apart, against counting one by one."""

import numpy as np
import pytest

from jaxsim._status import RequestStatus
from jaxsim.metrics.neighbours import Neighbours
from jaxsim.metrics.request_table import RequestTable
from jaxsim.metrics.tail import CAUSES, tail
from tests.metrics.tables import random_table, table


def fleet(seed: int = 0) -> RequestTable:
    """Three seeds on three instances, some requests rejected or unfinished."""
    rng = np.random.default_rng(seed)
    plain = random_table(rng, seeds=3, requests=60)
    shape = plain.arrival_s.shape
    status = rng.choice([RequestStatus.COMPLETED] * 8 + [RequestStatus.REJECTED, RequestStatus.UNFINISHED], shape)
    lost, open_ = status == RequestStatus.REJECTED, status == RequestStatus.UNFINISHED
    return table(
        arrival_s=plain.arrival_s,
        prompt_tokens=rng.integers(1, 1000, shape),
        output_tokens=np.where(lost | open_, 0, plain.output_tokens),
        instance=np.where(lost, -1, rng.integers(0, 3, shape)),
        first_scheduled_s=np.where(lost, np.nan, plain.first_scheduled_s),
        first_token_s=np.where(lost, np.nan, plain.first_token_s),
        finish_s=np.where(lost | open_, np.nan, plain.finish_s),
        preemptions=rng.integers(0, 2, shape),
        status=status,
    )


def test_neighbours_are_those_that_counting_finds() -> None:
    requests = fleet()
    found = Neighbours(requests)
    long = requests.prompt_tokens > np.quantile(requests.prompt_tokens, 0.9)
    for seed, one in np.ndindex(requests.arrival_s.shape):
        if requests.instance[seed, one] < 0:
            continue
        others = (requests.instance[seed] == requests.instance[seed, one]) & (np.arange(60) != one)
        arrival, begun, first, finish = (
            np.nan_to_num(getattr(requests, name)[seed], nan=np.inf)
            for name in ("arrival_s", "first_scheduled_s", "first_token_s", "finish_s")
        )
        at = arrival[one]
        assert found.waiting[seed, one] == np.sum(others & (arrival < at) & (begun > at))
        assert found.running[seed, one] == np.sum(others & (begun < at) & (finish > at))
        assert found.long_prompts_beside[seed, one] == np.sum(others & long[seed] & (begun < first[one]) & (first > at))
        inside = others & (first > first[one]) & (first <= finish[one])
        assert found.prompt_tokens_beside[seed, one] == np.sum(requests.prompt_tokens[seed][inside])


def test_shares_of_slow_and_of_all_requests() -> None:
    requests = fleet()
    ttft = np.where(requests.completed, requests.ttft_s, np.nan)[:, 10:]
    known = np.sort(ttft[~np.isnan(ttft)])
    found = tail(requests, "ttft_s", warmup=10, slowest=4)
    assert (found.count, found.measured) == (10, len(known)) and found.limit_s == known[-10]
    shares = {cause.name: cause for cause in found.causes}
    assert shares["preempted"].slow_share == np.mean(requests.preemptions[:, 10:][ttft >= known[-10]])
    assert shares["preempted"].share == np.mean(requests.preemptions[:, 10:][~np.isnan(ttft)])
    assert requests.ttft_s[found.seed_index, found.request_index].tolist() == known[:-5:-1].tolist()
    gains = [cause.slow_share - cause.share for cause in found.causes]
    assert gains == sorted(gains, reverse=True)


@pytest.mark.parametrize("metric", ["ttft_s", "tpot_s", "e2e_s"])
def test_every_metric_has_causes_that_can_be_told(metric: str) -> None:
    found = tail(fleet(), metric)
    assert found.causes and all(cause.name in CAUSES for cause in found.causes)
    assert all(0 <= share <= 1 for cause in found.causes for share in (cause.slow_share, cause.share))


def test_a_long_prompt_and_those_behind_it_are_found() -> None:
    # one prompt of 1,000 tokens holds up ten short ones; eighty more are not held up
    arrival = np.concatenate([[0.0], np.linspace(0.1, 0.9, 10), np.arange(80) + 10.0])
    first = np.concatenate([np.full(11, 1.0), np.arange(80) + 10.1])
    requests = table(
        arrival_s=arrival,
        prompt_tokens=np.where(arrival == 0, 1000, 10),
        first_scheduled_s=np.where(arrival < 1, np.where(arrival == 0, 0.0, 1.0), arrival),
        first_token_s=first,
        finish_s=first + 1,
    )
    found = tail(requests, "ttft_s")
    shares = {cause.name: (cause.slow_share, cause.share) for cause in found.causes}
    assert shares["behind_long_prompt"][0] == 0.9 and shares["behind_long_prompt"][1] == pytest.approx(10 / 91)
    assert shares["long_prompt"] == (0.1, pytest.approx(1 / 91))
    assert found.causes[0].name in ("behind_long_prompt", "mostly_queued")


def test_nothing_completed_and_unknown_metric() -> None:
    lost = table(
        arrival_s=[[0.0, 1.0]], instance=-1, status=RequestStatus.REJECTED,
        first_scheduled_s=np.nan, first_token_s=np.nan, finish_s=np.nan,
    )  # fmt: skip
    found = tail(lost)
    assert (found.count, found.share, found.causes, len(found.seed_index)) == (0, 0.0, (), 0)
    with pytest.raises(ValueError, match="metric must be one of ttft_s, tpot_s, e2e_s, not 'ttft'"):
        tail(fleet(), "ttft")
