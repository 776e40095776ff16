"""Length distributions: each inverse CDF against SciPy's, rounding, clipping and messages."""

import math

import jax
import numpy as np
import pytest
from scipy import stats

from jaxsim.workload import lengths as n
from jaxsim.workload.random import Purpose, draw
from tests.workload.examples import LENGTHS, evaluate, kind

UNIFORM = np.concatenate([2.0 ** -np.arange(1, 53), np.linspace(0.0013, 0.9987, 999), 1 - 2.0 ** -np.arange(2, 53)])


def tokens(lengths, uniform=UNIFORM):
    return evaluate(lengths.tokens(), uniform)


def test_every_kind_is_tried():
    assert [kind(lengths) for lengths in LENGTHS] == list(n.LENGTHS)


@pytest.mark.parametrize("lengths", LENGTHS, ids=kind)
def test_contract(lengths):
    with jax.numpy_dtype_promotion("strict"):
        drawn = tokens(lengths, np.sort(UNIFORM))
    assert drawn.dtype == np.int32
    assert (drawn >= lengths.min).all() and (drawn <= lengths.max).all()
    assert (np.diff(drawn) >= 0).all()


@pytest.mark.parametrize("lengths", LENGTHS, ids=kind)
def test_a_longer_run_starts_like_a_shorter_one(lengths):
    long = draw({Purpose.PROMPT: lengths.tokens()}, [0, 1], 1500)[Purpose.PROMPT]
    for count in (1, 3, 1025):
        short = draw({Purpose.PROMPT: lengths.tokens()}, [0, 1], count)[Purpose.PROMPT]
        np.testing.assert_array_equal(short, long[:, :count])


@pytest.mark.parametrize(
    ("lengths", "law"),
    [
        (n.Normal(mean=500.0, std=200.0, min=3, max=900), stats.norm(500, 200)),
        (n.Lognormal(median=math.exp(6.0), sigma=0.8, min=8, max=4096), stats.lognorm(0.8, scale=math.exp(6))),
        (n.Gamma(mean=500.0, cv=2.0), stats.gamma(0.25, scale=2000)),
        (n.Pareto(median=200.0, alpha=1.5), stats.pareto(1.5, scale=200 / 2 ** (1 / 1.5))),
        (n.Uniform(min=10, max=20), stats.uniform(10, 11)),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_rounded_down_and_clipped_quantile(lengths, law):
    expected = law.ppf(UNIFORM)
    clear = np.abs(expected - np.round(expected)) > 1e-9 * np.maximum(expected, 1)  # others may round either way
    assert clear.mean() > 0.95
    expected = np.clip(np.floor(expected), lengths.min, lengths.max)
    np.testing.assert_array_equal(tokens(lengths)[clear], expected[clear])


def test_geometric_is_the_smallest_length_of_enough_probability():
    drawn, law = tokens(n.Geometric(mean=128.0)), stats.geom(1 / 128)
    assert (law.sf(drawn) <= (1 - UNIFORM) * (1 + 1e-9)).all()
    assert (law.sf(drawn - 1) >= (1 - UNIFORM) * (1 - 1e-9)).all()


def test_simple_values():
    assert set(tokens(n.Fixed(value=7))) == {7}
    assert set(tokens(n.Geometric(mean=1.0))) == {1}
    assert set(tokens(n.Lognormal(median=50.5, sigma=0.0))) == {50}
    assert tokens(n.Uniform(min=3, max=3), np.array([0.1, 0.9])).tolist() == [3, 3]


def test_empirical_takes_each_value_equally_often(tmp_path):
    path = tmp_path / "lengths.txt"
    path.write_bytes(b"\xef\xbb\xbf900\r\n7\r\n\r\n5.9\r\n7")
    uniform = (np.arange(8) + 0.5) / 8
    for lengths in (n.Empirical(path=path), n.Empirical(values=[900, 7, 5.9, 7])):
        assert tokens(lengths, uniform).tolist() == [5, 5, 7, 7, 7, 7, 900, 900]
    assert tokens(n.Empirical(path=path, min=6, max=100), uniform).tolist() == [6, 6, 7, 7, 7, 7, 100, 100]
    assert n.Empirical(values=[1, 2]) == n.Empirical(values=(1, 2))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file or directory; it must be a text file with one length a line"),
        (b"", "no lengths; it must have one a line"),
        (b"5\nten\n", "line 2: 'ten' must be a finite number greater than 0"),
        (b"5\n\n-1\n", "line 3: '-1' must be"),
        (b"nan\n", "line 1: 'nan' must be"),
        (b"\xff\xfe\x00", "not UTF-8 text"),
    ],
)
def test_bad_empirical_file(tmp_path, content, message):
    path = tmp_path / "lengths.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=f"lengths.txt: {message}"):
        n.Empirical(path=str(path)).tokens()


@pytest.mark.parametrize(
    ("cls", "fields", "message"),
    [
        (n.Fixed, {"value": 0}, r"value must be a whole number from min \(1\) to max \(1048576\), not 0"),
        (n.Fixed, {"value": 2.5}, "value must be a whole number"),
        (n.Fixed, {"value": 9, "max": 8}, r"max \(8\), not 9"),
        (n.Uniform, {"min": 5, "max": 4}, r"max must be a whole number from min \(5\) to 2147483647, not 4"),
        (n.Uniform, {"min": 0, "max": 4}, "min must be a whole number from 1 to 2147483647, not 0"),
        (n.Normal, {"mean": -1.0, "std": 1.0}, "mean must be"),
        (n.Normal, {"mean": 1.0, "std": -1.0}, "std must be"),
        (n.Lognormal, {"median": 0.0, "sigma": 1.0}, "median must be"),
        (n.Lognormal, {"median": 1.0, "sigma": math.nan}, "sigma must be"),
        (n.Gamma, {"mean": 1.0, "cv": 0.0}, "cv must be"),
        (n.Geometric, {"mean": 0.5}, "mean must be a finite number, 1 or greater"),
        (n.Pareto, {"median": 1.0, "alpha": -1.0}, "alpha must be"),
        (n.Empirical, {}, "give either path"),
        (n.Empirical, {"path": "x", "values": [1]}, "give either path"),
        (n.Empirical, {"values": [1, 0]}, r"values\[1\] must be a finite number, greater than 0, not 0"),
        (n.Empirical, {"values": []}, "values must have at least one number"),
    ],
)
def test_bad_parameters(cls, fields, message):
    with pytest.raises(ValueError, match=message):
        cls(**fields)


def test_uniform_needs_its_range():
    with pytest.raises(TypeError, match="min"):
        n.Uniform(max=4)
