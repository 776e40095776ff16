"""Requests from plain arrays."""

import math

import numpy as np
import pytest

from jaxsim.workload import Requests
from jaxsim.workload.random import Purpose, uniforms


def test_one_seed_from_lists():
    requests = Requests.from_arrays([0.0, 1.5], [3, 4], 7, rate_per_s=2.0, id=["a", "b"])
    assert requests.arrival_s.tolist() == [[0.0, 1.5]] and requests.arrival_s.dtype == np.float64
    assert requests.prompt_tokens.tolist() == [[3, 4]] and requests.output_tokens.tolist() == [[7, 7]]
    assert requests.prompt_tokens.dtype == requests.row.dtype == requests.priority.dtype == np.int32
    assert requests.row.tolist() == [[0, 1]] and requests.class_index.tolist() == [[0, 0]]
    assert requests.id == ("a", "b") and requests.rate_per_s == 2.0 and requests.notices == ()
    np.testing.assert_array_equal(requests.routing_uniform, uniforms(Purpose.ROUTING, [0], 2))


def test_several_seeds_are_sorted_stably():
    requests = Requests.from_arrays([[2.0, 1.0, 1.0], [0.0, 1.0, 2.0]], [1, 2, 3], [[4, 5, 6], [7, 8, 9]])
    assert requests.row.tolist() == [[1, 2, 0], [0, 1, 2]]
    assert requests.arrival_s.tolist() == [[1, 1, 2], [0, 1, 2]]
    assert requests.prompt_tokens.tolist() == [[2, 3, 1], [1, 2, 3]]
    assert requests.output_tokens.tolist() == [[5, 6, 4], [7, 8, 9]]
    routing = uniforms(Purpose.ROUTING, [0, 1], 3)
    np.testing.assert_array_equal(requests.routing_uniform[0], routing[0, [1, 2, 0]])
    assert len(requests.notices) == 1 and "were sorted" in requests.notices[0]
    assert math.isnan(requests.rate_per_s)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arrival_s": []}, r"arrival_s must have shape \[N\] or \[R, N\] and at least one request, not \(0,\)"),
        ({"arrival_s": [0.0, -1.0]}, r"arrival_s\[0, 1\] is -1\.0; it must be a finite number, 0 or greater"),
        ({"arrival_s": [0.0, np.nan]}, r"arrival_s\[0, 1\] is nan"),
        ({"arrival_s": [0.0, np.inf]}, r"arrival_s\[0, 1\] is inf"),
        ({"arrival_s": ["a", "b"]}, "arrival_s must hold numbers"),
        ({"prompt_tokens": [1, 0]}, r"prompt_tokens\[0, 1\] is 0; it must be a whole number from 1 to 2147483647"),
        ({"output_tokens": [1.5, 1]}, r"output_tokens\[0, 0\] is 1\.5"),
        ({"output_tokens": 2**31}, r"output_tokens\[0, 0\] is 2147483648"),
        (
            {"prompt_tokens": [1, 2, 3]},
            r"prompt_tokens has shape \(3,\), which does not fit that of arrival_s, \(1, 2\)",
        ),
        ({"routing_uniform": [0.5, 1.0]}, r"routing_uniform\[0, 1\] is 1\.0; it must be a number in \[0, 1\)"),
        ({"class_index": -1}, r"class_index\[0, 0\] is -1"),
        ({"id": ["a"]}, r"id must have one text per request \(2\), not 1"),
    ],
)
def test_bad_arrays(changes, message):
    arrays = {"arrival_s": [0.0, 1.0], "prompt_tokens": 1, "output_tokens": 1} | changes
    with pytest.raises(ValueError, match=message):
        Requests.from_arrays(**arrays)
