"""What a scenario says: the sections of its file, as frozen dataclasses of the same names.

Sections with a `kind` are the components themselves; `READER` knows from which registry each is chosen.
"""

import math
from dataclasses import dataclass, field, fields, replace
from typing import Literal

from jaxsim._component import check, check_not_negative
from jaxsim.cluster.routing import (
    ROUTERS,
    AbstractRouter,
    CentralQueue,
    LeastWaiting,
    RoundRobin,
    StaticRouter,
    WeightedCapacity,
)
from jaxsim.cluster.switching import RoleSwitching
from jaxsim.cluster.transfer import KvTransfer
from jaxsim.config.facts import FACTS
from jaxsim.config.reader import Reader
from jaxsim.engine.policy import POLICIES, AbstractPolicy, VllmV1
from jaxsim.latency import LATENCIES, AbstractLatency, Roofline
from jaxsim.specs import MemoryUse, Slo
from jaxsim.workload import WORKLOADS, Synthetic, Trace
from jaxsim.workload.arrivals import ARRIVALS, Arrivals
from jaxsim.workload.joint import JOINT_LENGTHS, JointLengths
from jaxsim.workload.lengths import LENGTHS, Lengths

Workload = Synthetic | Trace

READER = Reader(
    {
        Workload: WORKLOADS,
        Arrivals: ARRIVALS,
        Lengths: LENGTHS,
        JointLengths: JOINT_LENGTHS,
        AbstractRouter: ROUTERS,
        AbstractLatency: LATENCIES,
        AbstractPolicy: POLICIES,
    },
    by_name=FACTS,
)


@dataclass(frozen=True, kw_only=True)
class KvCache:
    """The pool of KV blocks of one instance.

    Attributes:
        num_blocks: blocks in the pool; null is unlimited, or as many as fit where gpu_memory_utilization is given.
        gpu_memory_utilization: share of the device memory, in (0, 1], that weights, overheads and the pool take
            together; needs a latency with a model and hardware (roofline).
        block_size: tokens in a block.
        watermark: share of the pool, in [0, 1), that stays free when a request is admitted.
    """

    num_blocks: int | None = None
    gpu_memory_utilization: float | None = None
    block_size: int = 16
    watermark: float = 0.0

    def __post_init__(self) -> None:
        check(self, "num_blocks", lambda value: value >= 1, "1 or greater, or null for an unlimited pool")
        check(self, "block_size", lambda value: value >= 1, "1 or greater")
        check(self, "watermark", lambda value: 0 <= value < 1, "a share in [0, 1)")
        check(self, "gpu_memory_utilization", lambda value: 0 < value <= 1, "a share in (0, 1]")


@dataclass(frozen=True, kw_only=True)
class Instance:
    """A group of equal engine instances.

    Attributes:
        role: what the instances do: `unified` ones prefill and decode; `prefill` ones hand requests over to `decode`
            ones after their first token.
        count: how many there are.
        name: what reports call the group; null is its place in the list.
        latency: how long one iteration takes.
        scheduler: which requests an iteration serves.
        kv_cache: the pool of KV blocks of each instance.
        unavailable: when all of them are away, `[start_s, end_s]` each, in order; what they run then is dropped.
        on_failure: what becomes of their requests: `requeue` sends them to instances again, to be recomputed with the
            tokens they have emitted; `lose` drops them.
        cost_per_hour: price of one instance, in a currency of your choice; null is unknown.
    """

    role: Literal["unified", "prefill", "decode"] = "unified"
    count: int = 1
    name: str | None = None
    latency: AbstractLatency
    scheduler: AbstractPolicy = field(default_factory=VllmV1)
    kv_cache: KvCache = field(default_factory=KvCache)
    unavailable: tuple[tuple[float, float], ...] = ()
    on_failure: Literal["requeue", "lose"] = "requeue"
    cost_per_hour: float | None = None

    def __post_init__(self) -> None:
        _check_outages(self.unavailable)
        check(self, "count", lambda value: value >= 1, "1 or greater")
        check_not_negative(self, "cost_per_hour")
        _ = self.num_blocks  # the model fits

    @property
    def num_blocks(self) -> int | None:
        """Blocks of the KV pool: as given, or as many as fit; None is unlimited.

        Raises:
            ValueError: the latency says nothing of memory, or the model does not fit.
        """
        pool = self.kv_cache
        if pool.num_blocks is not None or pool.gpu_memory_utilization is None:
            return pool.num_blocks
        if not isinstance(self.latency, Roofline):
            raise ValueError(
                "kv_cache.gpu_memory_utilization: needs a latency with a model and hardware (kind: roofline); "
                "give num_blocks instead"
            )
        limits = {
            name: getattr(self.scheduler, name)
            for name in ("max_num_batched_tokens", "max_num_seqs")
            if getattr(self.scheduler, name, None) is not None
        }
        use = MemoryUse(gpu_memory_utilization=pool.gpu_memory_utilization, **limits)
        try:
            return self.latency.num_blocks(use, pool.block_size)
        except ValueError as error:
            raise ValueError(f"kv_cache.gpu_memory_utilization: {error}") from None


def _check_outages(unavailable: tuple[tuple[float, float], ...]) -> None:
    """A ValueError unless they are intervals, one after the other."""
    before = 0.0
    for place, (start_s, end_s) in enumerate(unavailable):
        if not (before <= start_s < end_s < math.inf):
            raise ValueError(
                f"unavailable.{place} must be [start_s, end_s] with start_s < end_s, from 0 on and after the one "
                f"before, not [{start_s:g}, {end_s:g}]"
            )
        before = end_s


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The fleet.

    Attributes:
        router: which instance an arriving request is sent to, of those that prefill.
        decode_router: which instance a request goes on at after its prefill, of those that only decode.
        instances: groups of equal instances; instances are numbered in this order.
        kv_transfer: how a request's KV cache gets from a prefill instance to a decode instance.
        role_switching: when prefill and decode instances take each other's requests too; null: never.
    """

    router: AbstractRouter = field(default_factory=RoundRobin)
    decode_router: AbstractRouter = field(default_factory=LeastWaiting)
    instances: tuple[Instance, ...]
    kv_transfer: KvTransfer = field(default_factory=KvTransfer)
    role_switching: RoleSwitching | None = None

    def __post_init__(self) -> None:
        if not self.instances:
            raise ValueError("instances must hold at least one group")
        delays = {getattr(group.latency, "front_end_s", 0.0) for group in self.instances if group.role != "decode"}
        if len(delays) > 1 and not isinstance(self.router, StaticRouter):
            raise ValueError(
                "instances: latency.front_end_s must be the same in all groups, as the router looks at the fleet when "
                f"a request reaches it, not {' and '.join(f'{delay:g}' for delay in sorted(delays))}"
            )
        roles = {group.role for group in self.instances}
        for role, other in (("prefill", "decode"), ("decode", "prefill")):
            if role in roles and other not in roles:
                raise ValueError(f"instances must hold a group with role {other}, as there is one with role {role}")
        transfer = self.transfer
        if "prefill" in roles and transfer.bandwidth_bytes_per_s is not None and transfer.bytes_per_token is None:
            raise ValueError(
                "kv_transfer.bytes_per_token must be given beside bandwidth_bytes_per_s, as the latency of the prefill "
                "instances names no model"
            )
        if "prefill" in roles and transfer.overlap == "layerwise" and transfer.layers is None:
            raise ValueError(
                "kv_transfer.layers must be given with overlap: layerwise, as the latency of the prefill instances "
                "names no model"
            )
        self._check_routers()

    def _check_routers(self) -> None:
        """A ValueError unless the routers fit the groups they serve."""
        fronts = [group for group in self.instances if group.role != "decode"]
        backs = [group for group in self.instances if group.role == "decode"]
        for key, router, groups, roles in (
            ("router", self.router, fronts, "unified or prefill"),
            ("decode_router", self.decode_router, backs, "decode"),
        ):
            if isinstance(router, WeightedCapacity) and groups and len(router.weights) != len(groups):
                raise ValueError(
                    f"{key}.weights must hold one number for each group with role {roles}, {len(groups)} in all, not "
                    f"{len(router.weights)}"
                )
        if isinstance(self.decode_router, CentralQueue):
            raise ValueError(
                "decode_router.kind must not be central_queue: requests carry their KV cache to an instance"
            )
        orders = sorted({group.scheduler.order for group in fronts})
        if isinstance(self.router, CentralQueue) and len(orders) > 1:
            raise ValueError(
                f"router.kind: central_queue needs one queue_order for all instances, not {' and '.join(orders)}"
            )
        if self.role_switching is None:
            return
        if not backs or not any(group.role == "prefill" for group in fronts):
            raise ValueError("role_switching needs a group with role prefill and one with role decode")
        routers = (self.router, self.decode_router)
        if any(isinstance(router, CentralQueue | WeightedCapacity) for router in routers):
            raise ValueError(
                "role_switching must be null with central_queue or weighted_capacity: an instance that helps out has "
                "no queue of its own and no weight there"
            )

    @property
    def transfer(self) -> KvTransfer:
        """How KV caches are transferred, with what the model of the prefill instances' latency says where it is not
        given."""
        transfer = self.kv_transfer
        models = [group.latency for group in self.instances if group.role == "prefill"]
        if not models or not isinstance(models[0], Roofline):
            return transfer
        model, dtype = models[0].spec, models[0].kv_dtype
        return replace(
            transfer,
            bytes_per_token=model.kv_bytes_per_token(dtype)
            if transfer.bytes_per_token is None
            else transfer.bytes_per_token,
            layers=transfer.layers or model.layers,
        )


@dataclass(frozen=True, kw_only=True)
class MonteCarlo:
    """Independent replications.

    Attributes:
        seeds: how many.
        first_seed: number of the first; the others follow it. One number gives the same requests in every scenario.
        warmup_requests: how many of the first requests of each seed the statistics leave out.
        start: state of the fleet when a replication starts: `empty`, or `warm`: as if it had run for ever, because
            requests of the same process were served before, which are simulated and not measured.
        past_requests: how many those are; null is so many that the start does not show.
        draws: `independent`, or `stratified`: sixteen seeds share out the range of every random number, which makes
            means much surer and tails no surer; intervals gain from 128 seeds on.
    """

    seeds: int = 1
    first_seed: int = 0
    warmup_requests: int = 0
    start: Literal["empty", "warm"] = "empty"
    past_requests: int | None = None
    draws: Literal["independent", "stratified"] = "independent"

    def __post_init__(self) -> None:
        check(self, "seeds", lambda value: 1 <= value < 2**31, "from 1 to 2147483647")
        check(self, "first_seed", lambda value: 0 <= value < 2**62, "0 or greater and below 2^62")
        check(self, "warmup_requests", lambda value: value >= 0, "0 or greater")
        check(self, "past_requests", lambda value: value >= 1, "1 or greater, or null")
        if self.past_requests is not None and self.start != "warm":
            raise ValueError("past_requests must not be given with start: empty")


@dataclass(frozen=True, kw_only=True)
class Engine:
    """How the simulation is computed; never what it finds.

    Attributes:
        leap: take stretches of iterations in which nothing changes in one step.
    """

    leap: bool = True


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A workload, a fleet that serves it, and what was promised.

    Sections may be given as the classes here or as plain data. All are checked as in a file.

    Attributes:
        name: what reports call it.
        workload: requests: when they arrive and how long they are.
        slo: latency limits of a request that is served well.
        cluster: the fleet.
        monte_carlo: independent replications.
        engine: how the simulation is computed.

    Raises:
        ScenarioError: if something in it is not valid; the message names the key and what is valid.
    """

    name: str = "scenario"
    workload: Workload
    slo: Slo = field(default_factory=Slo)
    cluster: Cluster
    monte_carlo: MonteCarlo = field(default_factory=MonteCarlo)
    engine: Engine = field(default_factory=Engine)

    def __post_init__(self) -> None:
        given = {key.name: getattr(self, key.name) for key in fields(self)}
        for name, value in READER.fields(Scenario, given).items():
            object.__setattr__(self, name, value)
