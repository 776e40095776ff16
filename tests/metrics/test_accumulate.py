"""Chunks in any order, exact or sketched, whole or merged: one summary."""

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxsim.metrics import Accumulator, RequestTable
from jaxsim.specs import Slo
from tests.metrics.tables import EDGES_S, accumulated, random_table, table

SLO = Slo(ttft_s=0.5, tpot_s=0.03)
WHOLE = random_table(np.random.default_rng(0), seeds=12, requests=40, first_seed=100)


@given(
    st.permutations(range(12)),
    st.integers(1, 12),
    st.sampled_from([0, 700, 10**6]),
    st.sampled_from(["added", "merged", "from files"]),
)
def test_order_and_size_of_chunks_do_not_matter(order: list[int], size: int, exact_limit: int, how: str) -> None:
    rows = [WHOLE.block(slice(seed, seed + 1)) for seed in order]
    chunks = [RequestTable.concatenate(rows[i : i + size]) for i in range(0, 12, size)]
    settings: dict[str, Any] = {"slo": SLO, "exact_limit": exact_limit, "warmup_requests": 4}
    accumulator = accumulated(*(chunks if how == "added" else []), **settings)
    for chunk in chunks if how != "added" else []:
        part = accumulated(chunk, **settings)
        if how == "merged":
            accumulator.merge(part)
        else:
            accumulator.add_state(_from_file(part.state()))
    assert accumulator.num_seeds == 12
    assert accumulator.summary() == accumulated(WHOLE, **settings).summary()


def _from_file(arrays: dict[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    file.seek(0)
    return np.load(file, allow_pickle=False)


def test_seeds_of_different_lengths_are_weighted_by_their_requests() -> None:
    short = table(seed=0, arrival_s=[0.0], first_token_s=4.0, finish_s=5.0)
    long = table(seed=1, arrival_s=[0.0, 1.0, 2.0])
    summary = accumulated(short, long).summary()
    assert summary["ttft_s"]["mean"] == (4 + 1 + 1 + 1) / 4


@pytest.mark.parametrize("units", ["seeds", "batches"])
def test_a_sketched_summary_is_close_to_the_exact_one(units: str) -> None:
    requests = random_table(np.random.default_rng(2), seeds=1 if units == "batches" else 300, requests=2000)
    exact = accumulated(requests, units=units, slo=SLO).summary()
    sketched = accumulated(requests, units=units, slo=SLO, exact_limit=1000).summary()
    for metric in ("ttft_s", "tpot_s", "e2e_s", "queue_s"):
        assert sketched[metric]["relative_error"] == 2**-9 and exact[metric]["relative_error"] == 0
        assert sketched[metric]["mean"] == exact[metric]["mean"]
        assert sketched[metric]["mean_ci"] == exact[metric]["mean_ci"]
        for statistic in ("p50", "p90", "p95", "p99"):
            value, interval = exact[metric][statistic], exact[metric][f"{statistic}_ci"]
            assert sketched[metric][statistic] == pytest.approx(value, rel=2**-9)
            width = interval[1] - interval[0]  # 128 groups of seeds estimate it as well as 300 seeds, not identically
            assert sketched[metric][f"{statistic}_ci"] == pytest.approx(interval, abs=0.2 * width + 2**-9 * value)
    assert {k: v for k, v in sketched.items() if k not in exact or not isinstance(v, dict | list)} == {
        k: v for k, v in exact.items() if not isinstance(v, dict | list)
    }


def test_memory_of_a_sketch_does_not_grow_with_its_requests() -> None:
    accumulator = accumulated(exact_limit=0)
    for first_seed in range(0, 400, 40):
        requests = random_table(np.random.default_rng(first_seed), 40, 100, first_seed)
        accumulator.merge(accumulated(requests, exact_limit=0))
    assert accumulator._whole._kept == []
    per_seed = (
        sum(getattr(sums, name).nbytes for sums in accumulator._whole._sums for name in sums.__dataclass_fields__)
        / accumulator.num_seeds
    )
    assert per_seed <= 320


def test_nothing_added_has_no_summary() -> None:
    with pytest.raises(ValueError, match="no seed has finished"):
        Accumulator(itl_edges_s=EDGES_S).summary()


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95])
def test_confidence_is_a_share(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence must be between 0 and 1"):
        accumulated(WHOLE).summary(confidence)
