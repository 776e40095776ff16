"""Whole fleets against the oracle: every scheduler, queue order, router, way of handing over and kind of client.

A case is drawn in two steps. Its structure (`draws.Structure`) selects the compiled program; its numbers are drawn
many times over and run side by side as lanes of it. KV pools are small and budgets tiny, requests come in bursts, and
prompts are likely to be exact multiples of blocks and budgets. Times are binary fractions: then events coincide all the
time, nothing is rounded, and no case is left out. Some structures are run with decimal times, too.
"""

from unittest import mock

import numpy as np
import pytest

from jaxsim.cluster import streams
from tests import draws, lanes
from tests.draws import Entry, Structure
from tests.engine.agreement import disagreements

CASES = 48
REQUESTS = 18
MOST_NEAR_TIES = 0.8
"""Of cases with decimal times: where all iterations of an instance take equally long, ends of instances coincide."""


def vllm_v1(role: str = "unified", order: str = "fcfs", count: int = 1, **switches) -> Entry:
    keys = {"reserve_full_prompt": True, "policy": "fcfs", "async_scheduling": False}
    return Entry("vllm_v1", role, order, keys | switches, count)


def vllm_v0(role: str = "unified", order: str = "fcfs", count: int = 1, padded: bool = True) -> Entry:
    return Entry("vllm_v0", role, order, {"padded_prompts": padded}, count)


def sglang(role: str = "unified", order: str = "fcfs", count: int = 1, **switches) -> Entry:
    return Entry("sglang", role, order, {"ignore_eos": False} | switches, count)


def of(kind: str, role: str = "unified", order: str = "fcfs", count: int = 1) -> Entry:
    return Entry(kind, role, order, {}, count)


STRUCTURES: dict[str, tuple[Structure, bool, bool]] = {
    # structure; leaping; all times binary fractions
    "unified, fcfs": (
        Structure((vllm_v1(), of("sarathi"), vllm_v0()), "least_outstanding", block_size=4),
        True,
        False,
    ),
    "two batches in flight, priorities": (
        Structure(
            (
                vllm_v1(order="priority", policy="priority", async_scheduling=True, reserve_full_prompt=False),
                sglang(order="shortest_job"),
                of("orca", order="shortest_prompt"),
            ),
            "least_kv",
        ),
        True,
        True,
    ),
    "stepped, a closed loop": (
        Structure(
            (vllm_v1(async_scheduling=True, count=2), of("static", order="longest_waiting"), of("sarathi")),
            "least_tokens",
            clients="closed_loop",
            users=5,
        ),
        False,
        True,
    ),
    "one queue": (
        Structure((of("sarathi", count=2), vllm_v0(padded=False)), "central_queue", clients="max_in_flight"),
        True,
        True,
    ),
    "sessions and outages": (
        Structure((vllm_v0(count=2), sglang(chunked_prefill_size=None)), "session_affinity", outages=1),
        True,
        True,
    ),
    "over links, layer by layer": (
        Structure(
            (vllm_v0("prefill", count=2), vllm_v1("decode", count=2)),
            "least_waiting",
            "least_kv",
            contention="link",
            layers=4,
        ),
        True,
        True,
    ),
    "over network interfaces": (
        Structure(
            (of("sarathi", "prefill", "shortest_prompt", 2), of("static", "decode", "shortest_prompt", 2)),
            "power_of_two",
            "session_affinity",
            contention="nic",
            clients="max_in_flight",
            block_size=4,
        ),
        True,
        False,
    ),
    "stepped, mixed roles": (
        Structure(
            (vllm_v1("prefill", async_scheduling=True), sglang("decode"), of("orca")),
            "weighted_capacity",
            "least_tokens",
        ),
        False,
        True,
    ),
    "roles switch": (
        Structure(
            (of("sarathi", "prefill", count=2), vllm_v1("decode", count=2)),
            "least_tokens",
            "least_outstanding",
            contention="link",
            role_switching=True,
        ),
        True,
        True,
    ),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_fleets_agree_with_the_oracle(name):
    structure, leap, exact = STRUCTURES[name]
    check(structure, leap, exact, seed=1, most_near_ties=MOST_NEAR_TIES)


def check(structure: Structure, leap: bool, exact: bool, seed: int, most_near_ties: float = 1.0) -> None:
    """Cases of a structure whose times are binary fractions; and, unless `exact`, as many whose times are not."""
    for binary in (True,) if exact else (True, False):
        cases = lanes.drawn(draws.fleets_of(structure, REQUESTS, exact=binary), CASES, seed)
        wrong, counts = disagreements(cases, leap, binary)
        print(f"{'binary' if binary else 'decimal'} times: {counts}")
        assert wrong == [], "\n".join(wrong)
        assert counts["near_ties"] <= most_near_ties * CASES


def test_the_program_of_streams_finds_the_same():
    """One instance after the other, where the router needs no state, or all as one lane."""
    structure = Structure((vllm_v1(count=2),), "random", block_size=4)
    cases = lanes.drawn(draws.fleets_of(structure, REQUESTS, exact=True), CASES, seed=2)
    for case in cases:
        case.cluster["instances"][0]["scheduler"]["long_prefill_token_threshold"] = 0
    apart = lanes.simulate(cases, leap=True)
    with mock.patch.object(streams, "can_serve", lambda fleet: False):
        together = lanes.simulate(cases, leap=True)
    for one, other in zip(apart, together, strict=True):
        assert one.totals.rounds[0] != other.totals.rounds[0], "these are two programs"
        for name, column in vars(one.table).items():
            np.testing.assert_array_equal(getattr(other.table, name), column, err_msg=name)
        for name in ("iterations", "recomputed_tokens", "makespan_s", "status"):
            assert getattr(other.totals, name) == getattr(one.totals, name), name
        assert other.totals.itl_counts.sum() == one.totals.itl_counts.sum()  # by stretches, which differ
        np.testing.assert_allclose(other.totals.kv_token_seconds, one.totals.kv_token_seconds, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("leap", [True, False], ids=["leap", "step"])
@pytest.mark.parametrize("seed", range(40))
def test_any_fleet_agrees_with_the_oracle(seed, leap):
    extras = ("closed_loop", "max_in_flight", "role_switching", *(("outages",) if seed % 3 == 0 else ()))
    [structure] = lanes.drawn(draws.structures(extras=extras), 1, seed)
    check(lanes.settled(structure, seed), leap, exact=seed % 2 == 0, seed=seed)
