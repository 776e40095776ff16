"""The random numbers: what they depend on, and that they are uniform and independent.

Statistical bounds are 5 standard errors or p = 1e-6, more for several values at once: a wrong alarm in about a million
draws of other seeds, per test.
"""

import jax
import numpy as np
import pytest
from jax.tree_util import Partial
from scipy import stats

from jaxsim.workload import random
from jaxsim.workload.random import TILE, Purpose, draw, uniforms

SEEDS = np.array([0, 7, 2**40 + 7])


def test_a_longer_run_starts_like_a_shorter_one():
    long = uniforms(Purpose.PROMPT, SEEDS, 2 * TILE + 5)
    for count in (1, 2, 7, TILE - 1, TILE, TILE + 1, 2 * TILE):
        np.testing.assert_array_equal(uniforms(Purpose.PROMPT, SEEDS, count), long[:, :count])


def test_a_seed_gives_the_same_numbers_in_any_company():
    together = uniforms(Purpose.OUTPUT, SEEDS, 100)
    for lane, seed in enumerate(SEEDS):
        np.testing.assert_array_equal(uniforms(Purpose.OUTPUT, [seed], 100)[0], together[lane])
    np.testing.assert_array_equal(uniforms(Purpose.OUTPUT, SEEDS[::-1], 100), together[::-1])


def test_global_flags_neither_matter_nor_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "_KEPT_NUMBERS", 0)
    expected = uniforms(Purpose.ARRIVAL, SEEDS, 10)
    flags = dict(jax.config.values)
    uniforms(Purpose.ARRIVAL, SEEDS, 10)
    assert dict(jax.config.values) == flags
    with (
        jax.enable_x64(False),
        jax.threefry_partitionable(False),
        jax.default_prng_impl("rbg"),
        jax.numpy_dtype_promotion("strict"),
    ):
        np.testing.assert_array_equal(uniforms(Purpose.ARRIVAL, SEEDS, 10), expected)


def test_what_a_seed_means_stays():
    """Changing these numbers changes every published result: do it knowingly."""
    drawn = [uniforms(purpose, [1], 2)[0] for purpose in (Purpose.ARRIVAL, Purpose.ROUTING)]
    np.testing.assert_array_equal(
        drawn, [[0.8626317024309599, 0.6300258297972884], [0.7993300712946295, 0.49520726181868213]]
    )


def test_uniform_and_independent():
    count = 20_000
    drawn = {(purpose, seed): uniforms(purpose, [seed], count)[0] for purpose in Purpose for seed in (0, 1)}
    streams = np.stack(list(drawn.values()))
    assert streams.min() > 0 and streams.max() < 1
    assert min(stats.kstest(stream, "uniform").pvalue for stream in streams) > 1e-6 / len(streams)
    correlation = np.corrcoef(streams) - np.eye(len(streams))
    assert np.abs(correlation).max() < 6 / np.sqrt(count)
    following = [np.corrcoef(stream[:-1], stream[1:])[0, 1] for stream in streams]
    assert np.abs(following).max() < 5.5 / np.sqrt(count)


def test_first_numbers_of_successive_seeds_are_uniform():
    first = uniforms(Purpose.ARRIVAL, np.arange(1500), 2)
    assert stats.kstest(first[:, 0], "uniform").pvalue > 1e-6
    assert abs(np.corrcoef(first[:-1, 0], first[1:, 0])[0, 1]) < 5 / np.sqrt(len(first))


def test_new_numbers_do_not_compile_anew():
    calls = []

    def scaled(scale, uniform):
        calls.append(scale)
        return scale * uniform

    for scale in (1.0, 2.0, 3.0):
        drawn = draw({Purpose.PROMPT: Partial(scaled, scale)}, [0], 5)[Purpose.PROMPT]
        np.testing.assert_array_equal(drawn, scale * uniforms(Purpose.PROMPT, [0], 5))
    assert len(calls) == 1


@pytest.mark.parametrize("seeds", [[], [-1], [0.5], 3, [[1]], ["a"], [2**63], [True]])
def test_bad_seeds(seeds):
    with pytest.raises(ValueError, match="seeds must be"):
        uniforms(Purpose.ARRIVAL, seeds, 3)


def test_the_latest_draws_are_kept_and_never_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = random._Kept(most_bytes=3 * 8 * 2 * 50)
    monkeypatch.setattr(random, "_KEPT", kept)
    seeds = np.arange(2)
    first = uniforms(Purpose.PROMPT, seeds, 50)
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 0.0
    assert uniforms(Purpose.PROMPT, seeds, 50) is first
    assert not np.array_equal(uniforms(Purpose.OUTPUT, seeds, 50), first)
    for count in (40, 30, 20):
        uniforms(Purpose.PROMPT, seeds, count)
    again = uniforms(Purpose.PROMPT, seeds, 50)
    assert again is not first and np.array_equal(again, first)
    monkeypatch.setattr(random, "_KEPT_NUMBERS", 10)
    assert uniforms(Purpose.PROMPT, seeds, 50).flags.writeable


def test_stratified_seeds_share_out_every_number() -> None:
    seeds = np.arange(64)
    free, shared = (
        draw({Purpose.PROMPT: random.uniform_sampler}, seeds, 500, stratified=stratified)[Purpose.PROMPT]
        for stratified in (False, True)
    )
    for group in range(4):
        parts = np.floor(16 * shared[16 * group : 16 * group + 16]).astype(int)
        assert np.array_equal(np.sort(parts, axis=0), np.tile(np.arange(16)[:, None], 500))
    assert np.all((shared > 0) & (shared < 1)) and not np.any(shared == free)
    for seed in (0, 17):  # each seed alone is as random as ever
        assert stats.kstest(shared[seed], "uniform").pvalue > 1e-6
        assert abs(np.corrcoef(shared[seed, :-1], shared[seed, 1:])[0, 1]) < 5 / np.sqrt(500)
    alone = draw({Purpose.PROMPT: random.uniform_sampler}, seeds[17:19], 50, stratified=True)[Purpose.PROMPT]
    np.testing.assert_array_equal(alone, shared[17:19, :50])
    pairs = [np.corrcoef(shared[a], shared[b])[0, 1] for a, b in ((0, 1), (3, 9), (0, 16), (5, 40))]
    assert np.max(np.abs(pairs)) < 6 / np.sqrt(500)
