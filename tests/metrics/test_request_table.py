"""Each per-request metric on numbers worked out by hand."""

import numpy as np
import pytest

from jaxsim._status import RequestStatus
from jaxsim.metrics import RequestTable
from tests.metrics.tables import random_table, table

NEVER = np.nan


@pytest.fixture
def requests() -> RequestTable:
    """A usual request, one of a single token, one that was scheduled but never emitted, one never routed."""
    return table(
        arrival_s=[1.0, 2.0, 3.0, 4.0],
        output_tokens=[5, 1, 0, 0],
        instance=[0, 0, 0, -1],
        first_scheduled_s=[1.5, 2.0, 3.25, NEVER],
        first_token_s=[2.0, 2.5, NEVER, NEVER],
        finish_s=[4.0, 2.5, NEVER, NEVER],
        status=[RequestStatus.COMPLETED, RequestStatus.COMPLETED, RequestStatus.UNFINISHED, RequestStatus.REJECTED],
    )


def test_latencies_of_requests(requests: RequestTable) -> None:
    np.testing.assert_array_equal(requests.ttft_s, [[1.0, 0.5, NEVER, NEVER]])
    np.testing.assert_array_equal(requests.tpot_s, [[0.5, NEVER, NEVER, NEVER]])  # 2 s for 4 further tokens
    np.testing.assert_array_equal(requests.e2e_s, [[3.0, 0.5, NEVER, NEVER]])
    np.testing.assert_array_equal(requests.queue_s, [[0.5, 0.0, 0.25, NEVER]])
    np.testing.assert_array_equal(requests.completed, [[True, True, False, False]])


def test_columns_are_those_of_the_file_seed_by_seed() -> None:
    columns = table(seed=[7, 8], arrival_s=[[1.0, 2.0], [3.0, 4.0]]).columns()
    assert ",".join(columns) == (
        "seed,request,arrival_s,prompt_tokens,output_tokens,instance,decode_instance,"
        "first_scheduled_s,first_token_s,finish_s,preemptions,cached_tokens,status"
    )
    np.testing.assert_array_equal(columns["seed"], [7, 7, 8, 8])
    np.testing.assert_array_equal(columns["request"], [0, 1, 0, 1])
    np.testing.assert_array_equal(columns["arrival_s"], [1.0, 2.0, 3.0, 4.0])


def test_concatenation_undoes_blocks() -> None:
    whole = random_table(np.random.default_rng(0), seeds=5, requests=7)
    parts = [whole.block(slice(0, 2)), whole.block(slice(2, 5))]
    joined = RequestTable.concatenate(parts)
    for name, column in whole.columns().items():
        np.testing.assert_array_equal(joined.columns()[name], column)
    np.testing.assert_array_equal(joined.seed, whole.seed)


def test_columns_of_other_shapes_are_refused(requests: RequestTable) -> None:
    columns = {name: getattr(requests, name) for name in requests.__dataclass_fields__}
    with pytest.raises(ValueError, match=r"finish_s must have shape \(1, 4\), not \(1, 3\)"):
        RequestTable(**columns | {"finish_s": np.zeros((1, 3))})
    with pytest.raises(ValueError, match=r"arrival_s must be \[seeds, requests\]"):
        RequestTable(**columns | {"seed": np.zeros(3)})
