"""The block bootstrap: what stays together, what is deterministic, how long the blocks are.

Statistical bounds are 5 standard errors: a wrong alarm in 2 million had the seeds been drawn anew.
"""

import numpy as np
import pytest

from jaxsim.workload import Trace
from jaxsim.workload.resample import _politis_white, block_length, bootstrap_rows

N = 60


@pytest.fixture
def path(tmp_path):
    """Row i has prompt i+1 and output 100-i, and comes i/10 s after row i-1, the first at 2 s."""
    arrival = 2 + np.cumsum(np.arange(N)) / 10
    rows = [f"{time},{i + 1},{100 - i}" for i, time in enumerate(arrival)]
    (tmp_path / "trace.csv").write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]))
    return tmp_path / "trace.csv"


def test_rows_of_a_block_stay_together(path):
    replay = Trace(path=path, resample="block_bootstrap", block_requests=7, rate_scale=2.0)
    requests = replay.draw(np.arange(4))
    row = requests.row
    np.testing.assert_array_equal(requests.prompt_tokens, row + 1)
    np.testing.assert_array_equal(requests.output_tokens, 100 - row)
    inside = np.arange(1, N) % 7 != 0
    np.testing.assert_array_equal(np.diff(row, axis=1)[:, inside] % N, 1)
    gap = np.where(row == 0, np.arange(1, N).mean(), row) / 10 / 2
    np.testing.assert_allclose(np.diff(requests.arrival_s, axis=1), gap[:, 1:], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(requests.arrival_s[:, 0], 1.0)
    assert "resampled in blocks of 7 requests" in requests.notices[-1]


def test_seeds_differ_and_replay(path):
    replay = Trace(path=path, resample="block_bootstrap")
    first, again = replay.draw([0, 1, 2]), replay.draw([2, 0])
    for name in ("arrival_s", "row", "routing_uniform"):
        np.testing.assert_array_equal(getattr(first, name)[[2, 0]], getattr(again, name))
    assert len({tuple(lane) for lane in first.row}) == 3


def test_every_row_is_equally_likely():
    rows = bootstrap_rows(np.arange(2000), 20, 3)
    share = np.bincount(rows.ravel(), minlength=20) / rows.size
    assert np.abs(share - 1 / 20).max() < 5 * np.sqrt(3 * (1 / 20) / rows.size)


def test_smallest_traces(tmp_path):
    for count in (1, 2, 3):
        file = tmp_path / f"{count}.csv"
        file.write_text("arrival_s,prompt_tokens,output_tokens\n" + "1,2,3\n" * count)
        requests = Trace(path=file, resample="block_bootstrap").draw([0])
        assert requests.arrival_s.tolist() == [[1.0] * count]


def test_rule_of_politis_and_white():
    """A first-order autoregression has G/g(0) = 2 r / (1 - r^2): the best block is (3/2 (2 r/(1 - r^2))^2 N)^(1/3)."""
    count, correlation, lengths = 4000, 0.7, []
    for seed in range(20):
        noise = np.random.default_rng(seed).standard_normal(count)
        values = np.zeros(count)
        for i in range(1, count):
            values[i] = correlation * values[i - 1] + noise[i]
        lengths.append(_politis_white(values))
    best = (1.5 * (2 * correlation / (1 - correlation**2)) ** 2 * count) ** (1 / 3)
    assert abs(np.mean(lengths) / best - 1) < 0.15
    assert _politis_white(noise) < 10


def test_blocks_are_long_enough_and_not_too_long():
    noise = np.random.default_rng(0).standard_normal(400)
    assert block_length(noise, noise) == 20  # sqrt(N)
    assert 50 < block_length(noise, np.cumsum(noise)) <= 60
    assert block_length(noise, np.sin(np.pi * np.arange(400) / 20)) == 60  # 3 sqrt(N)
    assert block_length(np.ones(400)) == 20
    assert block_length(np.arange(4.0)) == 2  # ceil(N / 3)
