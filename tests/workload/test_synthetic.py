"""Synthetic workloads: common random numbers across every change of configuration."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from jaxsim.workload import WORKLOADS, Requests, Synthetic, Trace
from jaxsim.workload.lengths import Fixed
from tests.workload.examples import ARRIVALS, synthetic

COLUMNS = ("arrival_s", "prompt_tokens", "output_tokens", "routing_uniform", "row", "priority", "class_index")


def test_registry():
    assert dict(WORKLOADS) == {"synthetic": Synthetic, "trace": Trace}


def test_columns():
    requests = synthetic(1025).draw(np.arange(3))
    for name in COLUMNS:
        column = getattr(requests, name)
        assert column.shape == (3, 1025)
        assert column.dtype == (np.float64 if name in ("arrival_s", "routing_uniform") else np.int32)
    np.testing.assert_array_equal(requests.row[2], np.arange(1025))
    assert requests.rate_per_s == 4.0 and requests.id is None and requests.notices == ()


def test_a_longer_run_starts_like_a_shorter_one():
    long, short = synthetic(1500).draw([4, 5]), synthetic(700).draw([5])
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(short, name)[0], getattr(long, name)[1, :700])


@pytest.mark.parametrize(
    "changes", [{"arrivals": ARRIVALS[1]}, {"prompt_tokens": Fixed(value=3)}, {"output_tokens": Fixed(value=3)}]
)
def test_a_change_leaves_the_rest_as_it_was(changes):
    before = synthetic(50)
    after = dataclasses.replace(before, **changes).draw([9])
    changed = {"arrivals": "arrival_s"}.get(*changes, *changes)
    for name in COLUMNS:
        assert np.array_equal(getattr(after, name), getattr(before.draw([9]), name)) == (name != changed)


def test_arrivals_prompts_and_outputs_are_independent():
    """Spearman correlations of 20,000 requests, 5 standard errors: a wrong alarm in 2 million."""
    drawn = synthetic(20_000).draw([3])
    gap = np.diff(drawn.arrival_s[0], prepend=0.0)
    ranks = stats.spearmanr(np.stack([gap, drawn.prompt_tokens[0], drawn.output_tokens[0], drawn.routing_uniform[0]]).T)
    assert np.abs(ranks.statistic - np.eye(4)).max() < 5 / np.sqrt(20_000)


@pytest.mark.parametrize("count", [0, -1, 2.5, 2**31])
def test_bad_count(count):
    with pytest.raises(ValueError, match="num_requests must be a whole number from 1 to 2147483647"):
        synthetic(count)


def test_requests_are_not_compared_element_by_element():
    requests = synthetic(2).draw([0])
    assert requests == requests and requests != synthetic(2).draw([0])
    assert isinstance(requests, Requests)
