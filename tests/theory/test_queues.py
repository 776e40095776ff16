"""Where the engine is a textbook queue, it must agree with the textbook.

Each statistic is a mean over independent replications, compared with its exact value by a t interval at level 1 - 1e-5
(`check_mean`). There are eleven comparisons, so for a new draw of the workloads a correct engine would fail with
probability 1.1e-4; the draws are fixed, so it always passes or never.
"""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from jaxsim.workload import Requests
from tests.front_door import simulate

FALSE_ALARM_RATE = 1e-5
REPLICATIONS = 400


def check_mean(replications: np.ndarray, expected: float, slack: float = 0.0) -> None:
    """The mean of independent values is `expected`, up to chance and a known bias of at most `slack`."""
    half = stats.t.ppf(1 - FALSE_ALARM_RATE / 2, len(replications) - 1) * stats.sem(replications)
    mean = replications.mean()
    assert half < 0.2 * expected, "too few replications to say anything"
    assert abs(mean - expected) <= half + slack, f"{mean} is not within {half + slack} of {expected}"


def poisson(rate: float, count: int, prompt: Any, output: Any, seed: int) -> Requests:
    rng = np.random.default_rng(seed)
    shape = (REPLICATIONS, count)
    arrival_s = np.cumsum(rng.exponential(1 / rate, shape), axis=1)
    draw = {"prompt": prompt, "output": output}
    tokens = {name: value(rng, shape) if callable(value) else np.full(shape, value) for name, value in draw.items()}
    return Requests.from_arrays(arrival_s, tokens["prompt"], tokens["output"])


def one_instance(base_s: float, max_num_seqs: int, **latency: float) -> dict[str, Any]:
    scheduler = {"kind": "vllm_v1", "max_num_seqs": max_num_seqs, "async_scheduling": False, "max_model_len": 100_000}
    group = {"latency": {"kind": "linear", "base_s": base_s, **latency}, "scheduler": scheduler}
    return {"instances": [group | {"kv_cache": {"num_blocks": None}}]}


def geometric(mean: float):
    return lambda rng, shape: rng.geometric(1 / mean, shape)


def erlang_c(servers: int, offered: float) -> float:
    """Probability that all servers are busy in M/M/c with `offered` = arrival rate x service time."""
    blocked = 1.0
    for c in range(1, servers + 1):  # Erlang B by recursion
        blocked = offered * blocked / (c + offered * blocked)
    return blocked / (1 - offered / servers * (1 - blocked))


def seen_on_arrival(table) -> np.ndarray:
    """How many are in the system when each request arrives, `[R, N]`."""
    return np.stack(
        [
            np.arange(table.num_requests) - np.searchsorted(np.sort(finish), arrival, side="right")
            for arrival, finish in zip(table.arrival_s, table.finish_s, strict=True)
        ]
    )


def test_one_slot_and_fixed_lengths_is_m_d_1():
    prompt, output, load, warmup = 40, 5, 0.7, 200
    per_token, per_context, per_pair = 1e-4, 1e-5, 1e-7
    prefill = 0.01 + per_token * prompt + per_pair * prompt**2
    service = prefill + sum(0.01 + per_token + per_context * (prompt + k) for k in range(1, output))
    cluster = one_instance(0.01, 1, per_token_s=per_token, per_context_token_s=per_context, per_prefill_pair_s=per_pair)
    table = simulate(cluster, poisson(load / service, 1200, prompt, output, seed=1)).requests
    np.testing.assert_allclose(table.finish_s - table.first_scheduled_s, service, rtol=1e-9)
    wait = table.queue_s[:, warmup:]
    check_mean(wait.mean(axis=1), load * service / (2 * (1 - load)))
    check_mean((wait > 0).mean(axis=1), load)


def test_one_slot_and_geometric_outputs_is_m_m_1():
    """Iterations of 1/64 of the mean service: geometric is exponential up to that share."""
    iteration, mean_tokens, load, warmup = 1 / 64, 64, 0.5, 200
    table = simulate(one_instance(iteration, 1), poisson(load, 1000, 1, geometric(mean_tokens), seed=2)).requests
    sojourn = table.e2e_s[:, warmup:]
    mean = 1 / (1 - load)
    check_mean(sojourn.mean(axis=1), mean, slack=iteration * mean)
    for share in (0.5, 0.1, 0.02):
        check_mean((sojourn > -math.log(share) * mean).mean(axis=1), share, slack=share * iteration * 5)
    check_mean(seen_on_arrival(table)[:, warmup:].mean(axis=1), load * mean, slack=iteration * mean)


@pytest.mark.parametrize(("servers", "load"), [(2, 0.7), (5, 0.7)])
def test_c_slots_and_geometric_outputs_are_m_m_c(servers, load):
    """An arrival waits for the end of the iteration in flight: at most one iteration more than in M/M/c."""
    iteration, mean_tokens, warmup = 1 / 64, 64, 300
    requests = poisson(load * servers, 1500, 1, geometric(mean_tokens), seed=3 + servers)
    wait = simulate(one_instance(iteration, servers), requests).requests.queue_s[:, warmup:]
    busy = erlang_c(servers, load * servers)
    check_mean(wait.mean(axis=1), busy / (servers * (1 - load)), slack=iteration)
    check_mean((wait > iteration).mean(axis=1), busy, slack=2 * iteration)


def test_unlimited_slots_and_constant_iterations_are_a_delay_line():
    """Everybody takes (prefill + outputs - 1) iterations, however many others there are."""
    iteration = 2**-6
    requests = poisson(30.0, 64, 3, geometric(20.0), seed=9)
    table = simulate(one_instance(iteration, 64), requests).requests
    np.testing.assert_allclose(table.first_token_s - table.first_scheduled_s, iteration, rtol=1e-12)
    np.testing.assert_allclose(table.finish_s - table.first_scheduled_s, iteration * requests.output_tokens, rtol=1e-12)
    assert ((table.queue_s >= 0) & (table.queue_s < iteration)).all()
    assert seen_on_arrival(table).max() > 8
