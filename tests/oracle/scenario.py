"""Build and run the oracle from a scenario in plain dictionaries (DESIGN's YAML) and a list of requests."""

from collections.abc import Sequence
from typing import Any

from tests.oracle.fleet import Instance, Outcome, simulate
from tests.oracle.job import Job
from tests.oracle.latency import Linear, PhasedLinear, Table
from tests.oracle.orca import Orca
from tests.oracle.routers import ROUTERS
from tests.oracle.sarathi import Sarathi
from tests.oracle.scheduler import KvCache
from tests.oracle.static import Static
from tests.oracle.transfer import KvTransfer, Transfers
from tests.oracle.vllm_v0 import VllmV0
from tests.oracle.vllm_v1 import VllmV1

LATENCIES = {"linear": Linear, "phased_linear": PhasedLinear, "table": Table}
SCHEDULERS = {"vllm_v1": VllmV1, "vllm_v0": VllmV0, "sarathi": Sarathi, "orca": Orca, "static": Static}


def jobs_of(requests: Sequence[Any]) -> list[Job]:
    """Jobs from drawn requests (`tests/draws.py`), which are in order of arrival."""
    digits = len(str(len(requests)))
    return [
        Job(i, r.arrival_s, r.prompt_tokens, r.output_tokens, r.priority, str(i).zfill(digits), r.routing_uniform)
        for i, r in enumerate(requests)
    ]


def run(cluster: dict[str, Any], jobs: Sequence[Job]) -> Outcome:
    """Simulate `jobs` (sorted by arrival) on a cluster as the scenario file writes it."""
    instances = [
        Instance(
            scheduler=_build(SCHEDULERS, group["scheduler"], KvCache(**group.get("kv_cache", {}))),
            latency=_build(LATENCIES, group["latency"]),
            role=group.get("role", "unified"),
        )
        for group in cluster["instances"]
        for _ in range(group.get("count", 1))
    ]
    router, decode_router = (
        ROUTERS[cluster.get(key, {}).get("kind", default)]()
        for key, default in (("router", "round_robin"), ("decode_router", "least_waiting"))
    )
    return simulate(jobs, instances, router, decode_router, Transfers(KvTransfer(**cluster.get("kv_transfer", {}))))


def _build(kinds: dict[str, Any], config: dict[str, Any], *args: Any) -> Any:
    return kinds[config["kind"]](*args, **{key: value for key, value in config.items() if key != "kind"})
