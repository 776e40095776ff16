"""A new scheduler and a new router are one class and one line each: the class here, the line where it is registered."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim._component import registry
from jaxsim.cluster.routing import ROUTERS
from jaxsim.config.io import parse_scenario
from jaxsim.config.json_schema import scenario_schema
from jaxsim.config.schema import READER
from jaxsim.engine.policy import POLICIES
from jaxsim.extend import AbstractPolicy, AbstractRouter, Plan, RouterView, View, component, select
from jaxsim.simulate import run
from tests.draws import Request
from tests.front_door import UNUSED_WORKLOAD, requests_of


@component
class OneByOne(AbstractPolicy):
    """Serves one request at a time, its whole prompt and then its outputs.

    Attributes:
        max_num_seqs: it is always 1.
        queue_order: order of the waiting queue.
    """

    kind: Literal["one_by_one"] = "one_by_one"
    max_num_seqs: int = 1
    queue_order: Literal["fcfs", "shortest_job"] = "fcfs"

    def plan(self, view: View) -> Plan:
        """A token for whoever runs, else the head of the queue."""
        admits = view.head.there & (view.num_running == 0)
        return Plan(
            grant=(view.running & (view.granted == 0)).astype(jnp.int32),
            blocks=jnp.maximum(view.blocks, view.blocks_of(view.computed + 1)),
            admit=select(admits, view.head.known, 0),
            admit_blocks=view.blocks_of(view.head.known),
            victim=jnp.int32(view.running.shape[0]),
            closes=jnp.bool_(True),
            rank=view.rank,
            memory=view.memory,
        )


@component
class LongestLast(AbstractRouter):
    """Sends prompts of more than `limit` tokens to the last instance, all others to the first.

    Attributes:
        limit: in tokens.
    """

    kind: Literal["longest_last"] = "longest_last"
    limit: int

    def pick(self, view: RouterView, measure: jax.Array) -> jax.Array:
        """See `AbstractRouter.pick`."""
        return select(view.prompt > self.limit, view.eligible.shape[0] - 1, 0).astype(jnp.int32)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line each: a class more in the folder's registry, which the reader of scenarios was given."""
    more = {
        AbstractPolicy: registry(*POLICIES.values(), OneByOne),
        AbstractRouter: registry(*ROUTERS.values(), LongestLast),
    }
    monkeypatch.setattr(READER, "_registries", {**READER._registries, **more})
    for cache in ("_models", "_types"):
        monkeypatch.setattr(READER, cache, {})


def scenario(**scheduler: Any) -> dict[str, Any]:
    group = {
        "count": 2,
        "latency": {"kind": "linear", "base_s": 1.0},
        "scheduler": {"kind": "one_by_one", **scheduler},
        "kv_cache": {"num_blocks": 100, "block_size": 1},
    }
    cluster = {"router": {"kind": "longest_last", "limit": 10}, "instances": [group]}
    return {"workload": UNUSED_WORKLOAD, "cluster": cluster}


def test_they_are_named_in_scenarios_and_serve(registered: None) -> None:
    """One request after the other at each instance, a second an iteration."""
    requests = requests_of([Request(0.0, 5, 4), Request(0.0, 20, 3), Request(0.0, 6, 3), Request(0.5, 7, 1)])
    table = run(parse_scenario(scenario()), requests=requests).requests
    np.testing.assert_array_equal(table.instance, [[0, 1, 0, 0]])
    np.testing.assert_array_equal(table.first_scheduled_s, [[0.0, 0.0, 4.0, 7.0]])
    np.testing.assert_array_equal(table.finish_s, [[4.0, 3.0, 7.0, 8.0]])
    shortest = run(parse_scenario(scenario(queue_order="shortest_job")), requests=requests).requests
    np.testing.assert_array_equal(shortest.finish_s, [[8.0, 3.0, 3.0, 4.0]])


def test_what_is_wrong_with_them_is_said(registered: None) -> None:
    with pytest.raises(ValueError, match="max_num_seq"):
        parse_scenario(scenario(max_num_seq=3))


def test_the_schema_of_scenarios_has_them(registered: None) -> None:
    text = str(scenario_schema())
    assert "one_by_one" in text and "longest_last" in text
