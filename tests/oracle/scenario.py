"""Build and run the oracle from a scenario in plain dictionaries (DESIGN's YAML) and a list of requests."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from tests.oracle import routers
from tests.oracle.clients import Clients, ClosedLoop, Open
from tests.oracle.fleet import Fleet, Outcome
from tests.oracle.instance import Instance
from tests.oracle.job import Job
from tests.oracle.latency import Linear, PhasedLinear, Table
from tests.oracle.orca import Orca
from tests.oracle.sarathi import Sarathi
from tests.oracle.scheduler import KvCache
from tests.oracle.sglang import Sglang
from tests.oracle.static import Static
from tests.oracle.switching import RoleSwitching
from tests.oracle.transfer import KvTransfer, Transfers
from tests.oracle.vllm_v0 import VllmV0
from tests.oracle.vllm_v1 import VllmV1
from tests.oracle.waiting import Waiting

LATENCIES = {"linear": Linear, "phased_linear": PhasedLinear, "table": Table}
SCHEDULERS = {
    "vllm_v1": VllmV1,
    "vllm_v0": VllmV0,
    "sarathi": Sarathi,
    "orca": Orca,
    "static": Static,
    "sglang": Sglang,
}


def jobs_of(requests: Sequence[Any]) -> list[Job]:
    """Jobs from drawn requests (`tests/draws.py`), which are in order of arrival."""
    digits = len(str(len(requests)))
    return [
        Job(
            i,
            r.arrival_s,
            r.prompt_tokens,
            r.output_tokens,
            r.priority,
            str(i).zfill(digits),
            r.routing_uniform,
            r.session,
            r.think_s,
        )
        for i, r in enumerate(requests)
    ]


def run(cluster: dict[str, Any], jobs: Sequence[Job], arrivals: dict[str, Any] | None = None) -> Outcome:
    """Simulate `jobs` (in the order in which they are sent) on a cluster as the scenario file writes it.

    Of `arrivals` (of the workload) what matters is `closed_loop` with `concurrency` and `think_time_s`, and
    `max_in_flight`; the times of open arrivals are the jobs' own.
    """
    instances = _instances(cluster["instances"])
    router = cluster.get("router", {"kind": "round_robin"})
    decode_router = cluster.get("decode_router", {"kind": "least_waiting"})
    queues = [instance.scheduler.waiting for instance in instances if instance.role != "decode"]
    central = Waiting(queues[0].order)
    if router["kind"] == "central_queue":
        for queue in queues:
            assert queue.order == central.order
            queue.central = central
    switching = cluster.get("role_switching")
    fleet = Fleet(
        jobs,
        instances,
        routers.build(instances, lambda instance: instance.role != "decode", **router),
        routers.build(instances, lambda instance: instance.role == "decode", **decode_router),
        Transfers(KvTransfer(**cluster.get("kv_transfer", {}))),
        _clients(jobs, arrivals or {}),
        central,
        RoleSwitching(**switching) if switching else None,
    )
    return fleet.run()


def _instances(groups: Sequence[dict[str, Any]]) -> list[Instance]:
    entries = [entry for entry, group in enumerate(groups) for _ in range(group.get("count", 1))]
    return [
        Instance(
            scheduler=_build(SCHEDULERS, groups[entry]["scheduler"], KvCache(**groups[entry].get("kv_cache", {}))),
            latency=_build(LATENCIES, groups[entry]["latency"]),
            role=groups[entry].get("role", "unified"),
            index=index,
            entry=entry,
            outages=deque((start, end) for start, end in groups[entry].get("unavailable", [])),
            on_failure=groups[entry].get("on_failure", "requeue"),
        )
        for index, entry in enumerate(entries)
    ]


def _clients(jobs: Sequence[Job], arrivals: dict[str, Any]) -> Clients:
    if arrivals.get("kind") == "closed_loop":
        return ClosedLoop(jobs, arrivals["concurrency"], arrivals.get("think_time_s", 0.0))
    return Open(jobs, arrivals.get("max_in_flight"))


def _build(kinds: dict[str, Any], config: dict[str, Any], *args: Any) -> Any:
    return kinds[config["kind"]](*args, **{key: value for key, value in config.items() if key != "kind"})
