"""Where a fleet is a textbook queueing network, it must agree with the textbook.

As in `test_queues.py`: means over independent replications within t intervals at level 1 - 1e-5; nine comparisons.
"""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from jaxsim.metrics.request_table import RequestTable
from jaxsim.workload import Requests
from tests.front_door import simulate
from tests.theory.test_queues import FALSE_ALARM_RATE, check_mean, erlang_c, geometric

REPLICATIONS = 192
ITERATION_S = 1 / 64
MEAN_TOKENS = 64


def poisson(rate: float, count: int, prompt: Any, output: Any, seed: int, replications: int = REPLICATIONS) -> Requests:
    rng = np.random.default_rng(seed)
    shape = (replications, count)
    arrival_s = np.cumsum(rng.exponential(1 / rate, shape), axis=1)
    draw = {"prompt": prompt, "output": output}
    tokens = {name: value(rng, shape) if callable(value) else np.full(shape, value) for name, value in draw.items()}
    return Requests.from_arrays(arrival_s, tokens["prompt"], tokens["output"], routing_uniform=rng.random(shape))


def one_slot_instances(count: int, router: str) -> dict[str, Any]:
    """Instances that serve one request at a time; with geometric outputs its service is nearly exponential."""
    group = {
        "count": count,
        "latency": {"kind": "linear", "base_s": ITERATION_S},
        "scheduler": {"kind": "vllm_v1", "max_num_seqs": 1, "async_scheduling": False, "max_model_len": 100_000},
        "kv_cache": {"num_blocks": None},
    }
    return {"router": {"kind": router}, "instances": [group]}


def test_one_queue_for_one_slot_instances_is_m_m_c():
    """An idle instance takes a request the moment it arrives: there is no iteration in flight to wait for."""
    servers, load, warmup = 3, 0.7, 200
    requests = poisson(load * servers, 1000, 1, geometric(MEAN_TOKENS), seed=11)
    wait = simulate(one_slot_instances(servers, "central_queue"), requests).requests.queue_s[:, warmup:]
    busy = erlang_c(servers, load * servers)
    mean = busy / (servers * (1 - load))
    check_mean(wait.mean(axis=1), mean, slack=ITERATION_S * mean)
    check_mean((wait > 0).mean(axis=1), busy, slack=ITERATION_S)


def test_fewest_outstanding_waits_less_than_random_and_more_than_one_queue():
    """Of the same requests; random routing makes every instance an M/M/1."""
    servers, load, warmup = 3, 0.7, 150
    requests = poisson(load * servers, 700, 1, geometric(MEAN_TOKENS), seed=12)
    wait = {
        router: simulate(one_slot_instances(servers, router), requests).requests.queue_s[:, warmup:].mean(axis=1)
        for router in ("random", "least_outstanding", "central_queue")
    }
    check_mean(wait["random"], load / (1 - load), slack=2 * ITERATION_S * load / (1 - load))
    for better, worse in (("least_outstanding", "random"), ("central_queue", "least_outstanding")):
        saved = wait[worse] - wait[better]
        assert saved.mean() > stats.t.ppf(1 - FALSE_ALARM_RATE, len(saved) - 1) * stats.sem(saved)


@pytest.mark.parametrize(("prefill_s", "decode_s"), [(1.0, 0.5), (0.5, 1.0)])
def test_a_tandem_of_constant_services_waits_as_its_slower_server_alone(prefill_s, decode_s):
    """Prefill and decode instances with one slot each: waiting at both together is that of an M/D/1 with the longer of
    the two services, in whichever order they come (Friedman 1965, "Reduction methods for tandem queuing systems")."""
    load, warmup = 0.7, 200
    one_slot = {"kind": "vllm_v0", "max_num_seqs": 1, "max_num_batched_tokens": 64}
    group = {"scheduler": one_slot, "kv_cache": {"num_blocks": None}}
    cluster = {
        "instances": [
            group | {"role": "prefill", "latency": {"kind": "linear", "base_s": prefill_s}},
            group | {"role": "decode", "latency": {"kind": "linear", "base_s": decode_s / 4}},
        ]
    }
    requests = poisson(load / max(prefill_s, decode_s), 800, 8, 5, seed=13)  # a token at prefill, then four
    table = simulate(cluster, requests).requests
    np.testing.assert_allclose(table.finish_s - table.decode_scheduled_s, decode_s, rtol=1e-9)
    queues = table.breakdown_s["queue_prefill_s"][:, warmup:], table.breakdown_s["queue_decode_s"][:, warmup:]
    check_mean((queues[0] + queues[1]).mean(axis=1), load * 1.0 / (2 * (1 - load)))
    first = load * prefill_s
    check_mean(queues[0].mean(axis=1), first * prefill_s / (2 * (1 - first)))
    if decode_s < prefill_s:
        assert np.max(queues[1]) < 1e-9


TRANSFER = {"latency_s": 2e-3, "bandwidth_bytes_per_s": 2e6, "bytes_per_token": 1000.0}


def busy_fleet(contention: str) -> tuple[RequestTable, Requests]:
    """Two prefill and two decode instances over slow links, with little memory."""
    latency = {"kind": "linear", "base_s": 4e-3, "per_token_s": 2e-5, "per_context_token_s": 1e-6}
    group = {"count": 2, "latency": latency, "kv_cache": {"num_blocks": 40, "block_size": 8}}
    sarathi = {"kind": "sarathi", "max_num_seqs": 8, "chunk_size": 32}
    cluster = {
        "router": {"kind": "least_outstanding"},
        "instances": [
            group | {"role": "prefill", "scheduler": sarathi},
            group | {"role": "decode", "scheduler": {"kind": "vllm_v0", "max_num_seqs": 8}},
        ],
        "kv_transfer": TRANSFER | {"contention": contention},
    }

    def lengths(most: int):
        return lambda rng, shape: rng.integers(1, most, shape)

    requests = poisson(40.0, 150, lengths(120), lengths(60), seed=14, replications=16)
    return simulate(cluster, requests).requests, requests


@pytest.mark.parametrize("contention", ["link", "nic"])
def test_links_carry_one_transfer_at_a_time_and_nothing_is_lost(contention):
    table, given = busy_fleet(contention)
    assert table.completed.all()
    np.testing.assert_array_equal(table.output_tokens, given.output_tokens)
    handed = table.decode_instance >= 0
    np.testing.assert_array_equal(handed, given.output_tokens > 1)
    assert set(np.unique(table.instance)) == {0, 1} and set(np.unique(table.decode_instance)) == {-1, 2, 3}
    # what leaves an instance arrives, in the time that its bytes take
    seconds = (table.kv_landed_s - table.kv_started_s)[handed]
    moved = given.prompt_tokens[handed] * TRANSFER["bytes_per_token"]
    np.testing.assert_allclose(seconds, TRANSFER["latency_s"] + moved / TRANSFER["bandwidth_bytes_per_s"], rtol=1e-9)
    assert table.breakdown_s["wait_link_s"][handed].max() > 0
    # one at a time on what is shared
    if contention == "link":
        shared = [table.instance * 10 + table.decode_instance]
    else:
        shared = [table.instance, table.decode_instance]
    for seed in range(table.num_seeds):
        for number in shared:
            for one in np.unique(number[seed][handed[seed]]):
                here = handed[seed] & (number[seed] == one)
                order = np.argsort(table.kv_started_s[seed][here], kind="stable")
                started, landed = table.kv_started_s[seed][here][order], table.kv_landed_s[seed][here][order]
                assert (landed[:-1] <= started[1:] * (1 + 1e-12)).all()
    # the parts make up the whole
    whole = sum(table.breakdown_s.values())
    np.testing.assert_allclose(whole[handed], table.ttft_with_transfer_s[handed], rtol=1e-9)
    assert all((part[handed] >= 0).all() for part in table.breakdown_s.values())
