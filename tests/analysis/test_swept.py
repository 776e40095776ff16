"""Sweeps with their keys as dimensions."""

import numpy as np

from jaxsim.analysis.swept import dataset

KEYS = ("workload.arrivals.rate", "scheduler.max_num_seqs")
ROWS = [
    {KEYS[0]: rate, KEYS[1]: seqs, "ttft_s.p99": rate / seqs, "pareto": rate == 1, "goodput_requests_per_s": None}
    for rate in (1.0, 2.0, 4.0)
    for seqs in (8, 16)
]


def test_a_grid_has_the_keys_as_dimensions() -> None:
    data = dataset(ROWS, KEYS)
    assert dict(data.sizes) == {"rate": 3, "max_num_seqs": 2} and data.attrs["schema_version"] == 1
    assert float(data["ttft_s.p99"].sel(rate=4.0, max_num_seqs=8)) == 0.5
    assert data["ttft_s.p99"].units == "s" and data["goodput_requests_per_s"].units == "1/s"
    assert data.pareto.dtype == bool and np.isnan(data["goodput_requests_per_s"]).all()


def test_what_is_no_grid_is_a_row_of_points() -> None:
    data = dataset(ROWS[:5], KEYS)
    assert dict(data.sizes) == {"point": 5}
    assert data.rate.values.tolist() == [1, 1, 2, 2, 4] and data["ttft_s.p99"].values[4] == 0.5


def test_keys_with_the_same_last_part_keep_their_names() -> None:
    keys = ("prompt_tokens.value", "output_tokens.value")
    data = dataset([{keys[0]: 1, keys[1]: text, "e2e_s.mean": 1.0} for text in ("[1]", "[2]")], keys)
    assert dict(data.sizes) == {keys[0]: 1, keys[1]: 2}
