"""What hypothesis draws: small workloads and engines that disagree about everything a scheduler decides.

A drawn case is plain data (DESIGN's scenario keys), so that the oracle and jaxsim read the same.
"""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

GAP_S = 3.1e-7  # arrivals are multiples of it, which no sum of the coefficients below comes near by design
EXACT_GAP_S = 2**-12  # or of this: then all coefficients are binary, too, and events often coincide, exactly


@dataclass
class Request:
    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    priority: int = 0
    routing_uniform: float = 0.0
    session: str | None = None
    think_s: float | None = None


@dataclass
class DrawnCase:
    cluster: dict[str, Any]
    requests: list[Request]
    arrivals: dict[str, Any] | None = None  # the workload's, where they are more than the times of the requests


def ticks(most: int, exact: bool = False) -> st.SearchStrategy[float]:
    """Times up to `most` times 3.1e-7 s, in multiples of what arrivals are multiples of."""
    if exact:
        return st.integers(0, max(1, round(most * GAP_S / EXACT_GAP_S))).map(lambda count: count * EXACT_GAP_S)
    return st.integers(0, most).map(lambda count: count * GAP_S)


@st.composite
def workloads(
    draw, count: int, marks: list[int], max_prompt: int = 70, max_output: int = 24, exact: bool = False
) -> list[Request]:
    """`count` requests; prompts like to be exact multiples of the `marks` (block size, budget), or one off."""
    near_marks = [k * mark + off for mark in marks for k in (1, 2, 3) for off in (-1, 0, 1)]
    prompts = st.one_of(
        st.just(1),
        st.sampled_from([tokens for tokens in near_marks if 1 <= tokens <= max_prompt] or [1]),
        st.integers(1, max_prompt),
    )
    outputs = st.one_of(st.just(1), st.integers(1, max_output))
    pace = draw(st.sampled_from([200, 20_000, 300_000]))
    if exact:
        pace = max(1, round(pace * GAP_S / EXACT_GAP_S))
    gaps = st.one_of(st.just(0), st.integers(0, pace))
    count_of_gaps, requests = draw(gaps), []
    for _ in range(count):
        arrival_s = count_of_gaps * (EXACT_GAP_S if exact else GAP_S)
        requests.append(Request(arrival_s, draw(prompts), draw(outputs), draw(st.integers(0, 2))))
        count_of_gaps += draw(gaps)
    return requests


linear_latencies = st.fixed_dictionaries(
    {
        "kind": st.just("linear"),
        "base_s": st.sampled_from([5e-3, 1e-4]),
        "per_token_s": st.sampled_from([0.0, 2e-5]),
        "per_context_token_s": st.sampled_from([0.0, 1e-8, 3e-5]),
        "per_prefill_pair_s": st.sampled_from([0.0, 5e-10, 1e-6]),
    }
)

exact_latencies = st.fixed_dictionaries(
    {
        "kind": st.just("linear"),
        "base_s": st.sampled_from([2**-8, 2**-12]),
        "per_token_s": st.sampled_from([0.0, 2**-15]),
        "per_context_token_s": st.sampled_from([0.0, 2**-20, 2**-15]),
        "per_prefill_pair_s": st.sampled_from([0.0, 2**-22, 2**-20]),
    }
)


def vllm_v1_schedulers(**fixed: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Synchronous fcfs by default; `fixed` replaces or adds keys (values or strategies)."""
    keys: dict[str, Any] = {
        "kind": "vllm_v1",
        "max_num_batched_tokens": st.sampled_from([1, 2, 3, 5, 8, 16, 33, 64]),
        "max_num_seqs": st.integers(1, 8),
        "max_model_len": st.sampled_from([72, 80, 512]),
        "reserve_full_prompt": st.booleans(),
        "async_scheduling": False,
    } | fixed
    return st.fixed_dictionaries(
        {key: value if isinstance(value, st.SearchStrategy) else st.just(value) for key, value in keys.items()}
    )


@st.composite
def cases(
    draw, count: int, schedulers: st.SearchStrategy[dict[str, Any]], block_size: int | None = None, instances: int = 1
) -> DrawnCase:
    """A workload and a fleet on which every request can finish. Routers give each instance equally many of them."""
    scheduler = draw(schedulers)
    block_size = block_size or draw(st.sampled_from([1, 16]))
    budget = scheduler.get("max_num_batched_tokens", scheduler.get("chunk_size", block_size))
    requests = draw(workloads(count, [block_size, budget]))
    if instances > 1:
        for request, instance in zip(requests, draw(st.permutations(range(count))), strict=True):
            request.routing_uniform = (instance % instances + draw(st.sampled_from([0.0, 0.5, 0.99]))) / instances
    limit = scheduler.get("max_model_len", 10**6)
    never_fed = scheduler["kind"] == "vllm_v1"  # its last token needs no slot, and it can do with exactly what it needs
    longest = max(min(r.prompt_tokens + r.output_tokens, limit) - never_fed for r in requests)
    needed = -(-longest // block_size)
    if scheduler["kind"] == "orca":
        needed = max(needed, limit // block_size)
    spare = draw(st.one_of(st.integers(0, 3), st.integers(0, 2 * needed), st.just(10_000)))
    cluster = {
        "router": {"kind": draw(st.sampled_from(["round_robin", "random"]))},
        "instances": [
            {
                "count": instances,
                "latency": draw(linear_latencies),
                "scheduler": scheduler,
                "kv_cache": {
                    "num_blocks": needed + spare,
                    "block_size": block_size,
                    "watermark": draw(st.sampled_from([0.0, 0.1])) if scheduler["kind"] == "vllm_v1" else 0.0,
                },
            }
        ],
    }
    return DrawnCase(cluster, requests)


QUEUE_ORDERS = ("fcfs", "priority", "shortest_prompt", "shortest_job", "longest_waiting")
SCHEDULERS = ("vllm_v1", "vllm_v0", "sarathi", "orca", "static", "sglang")
ROUTERS = (
    "round_robin",
    "random",
    "least_waiting",
    "least_outstanding",
    "least_tokens",
    "least_kv",
    "power_of_two",
    "weighted_capacity",
    "session_affinity",
    "central_queue",
)
STATEFUL_ROUTERS = (
    "least_waiting",
    "least_outstanding",
    "least_tokens",
    "least_kv",
    "power_of_two",
    "session_affinity",
)
LONGEST = 96  # tokens of a prompt with its outputs, at most
SWITCHES: dict[str, dict[str, Any]] = {
    "vllm_v1": {
        "reserve_full_prompt": st.booleans(),
        "policy": st.sampled_from(["fcfs", "fcfs", "priority"]),
        "async_scheduling": st.booleans(),
    },
    "vllm_v0": {"padded_prompts": st.booleans()},
    "sarathi": {},
    "orca": {},
    "static": {},
    "sglang": {
        "chunked_prefill_size": st.sampled_from([{}, {}, {"chunked_prefill_size": None}]),
        "ignore_eos": st.booleans(),
    },
}
"""Of every scheduler, keys that select the compiled program."""


def schedulers(
    kind: str, queue_order: str = "fcfs", block_size: int = 1, slots: int | None = None, **fixed: Any
) -> st.SearchStrategy[dict[str, Any]]:
    """A scheduler of that kind whose limits bite, on which no request of `workloads` is too long."""
    sizes = [size for size in (1, 2, 3, 7, 16, 17, 33, 64) if size >= block_size]
    keys: dict[str, dict[str, Any]] = {
        "vllm_v1": {
            "max_num_batched_tokens": st.sampled_from([1, 2, 3, 5, 8, 16, 33, 64]),
            "max_model_len": st.sampled_from([72, 80, 512]),
            "long_prefill_token_threshold": st.sampled_from([0, 0, 1, 7]),
        },
        "vllm_v0": {"max_num_batched_tokens": st.integers(LONGEST, 200)},
        "sarathi": {"chunk_size": st.one_of(st.just(1), st.integers(1, 64))},
        "orca": {"max_model_len": LONGEST},
        "static": {},
        "sglang": {
            "chunked_prefill_size": st.sampled_from(sizes),
            "max_prefill_tokens": st.sampled_from([1, 40, 200]),
            "conservativeness": st.sampled_from([0.3, 1.0, 2.0]),
        },
    }
    limit = "max_running_requests" if kind == "sglang" else "max_num_seqs"
    drawn = {"kind": kind, limit: slots or st.integers(1, 8), "queue_order": queue_order, **keys[kind], **fixed}
    return st.fixed_dictionaries({key: _strategy(value) for key, value in drawn.items()})


def _strategy(value: Any) -> st.SearchStrategy:
    return value if isinstance(value, st.SearchStrategy) else st.just(value)


def blocks_needed(scheduler: dict[str, Any], tokens: int, block_size: int) -> int:
    """Blocks with which a request of that many tokens, outputs included, can finish on an instance of its own."""
    if scheduler["kind"] == "orca":
        return scheduler["max_model_len"] // block_size
    return -(-tokens // block_size) + (scheduler["kind"] == "sglang")


@dataclass(frozen=True)
class Entry:
    """One entry of `cluster.instances`: what of it selects the compiled program."""

    kind: str
    role: str = "unified"
    queue_order: str = "fcfs"
    switches: dict[str, Any] = field(default_factory=dict)
    count: int | None = None  # drawn: 1 or 2
    on_failure: str = "requeue"


@dataclass(frozen=True)
class Structure:
    """What selects the program that a fleet is compiled to; all else are numbers, different in every lane."""

    entries: tuple[Entry, ...]
    router: str = "round_robin"
    decode_router: str = "least_waiting"
    known_outputs: bool = True  # of least_tokens
    contention: str = "none"
    layers: int = 0  # of transfers that overlap with the prefill; 0: they do not
    clients: str | None = None  # closed_loop, max_in_flight
    users: int | None = None  # of a closed loop; drawn
    block_size: int = 1
    outages: int = 0  # times that every entry is away
    role_switching: bool = False

    @property
    def disaggregated(self) -> bool:
        return any(entry.role == "decode" for entry in self.entries)


@st.composite
def routers(draw, kind: str, known_outputs: bool, entries: int, exact: bool) -> dict[str, Any]:
    """A router of that kind; `entries` of the cluster are in its group."""
    config: dict[str, Any] = {"kind": kind}
    if kind in STATEFUL_ROUTERS:
        config["staleness_s"] = draw(st.one_of(st.just(0.0), ticks(100_000, exact)))
    if kind == "least_tokens":
        config["known_outputs"] = known_outputs
    if kind == "weighted_capacity":
        config["weights"] = [draw(st.sampled_from([0.5, 1.0, 2.0])) for _ in range(entries)]
    return config


@st.composite
def outages(draw, count: int, exact: bool) -> list[list[float]]:
    """Disjoint intervals, in order."""
    ends = sorted(draw(st.lists(ticks(400_000, exact), min_size=2 * count, max_size=2 * count, unique=True)))
    return [list(pair) for pair in zip(ends[::2], ends[1::2], strict=True)]


@st.composite
def structures(
    draw,
    kinds: tuple[str, ...] = SCHEDULERS,
    router_kinds: tuple[str, ...] = ROUTERS,
    layouts: tuple[tuple[str, ...], ...] = (
        ("unified",),
        ("unified", "unified"),
        ("prefill", "decode"),
        ("prefill", "decode", "unified"),
    ),
    extras: tuple[str, ...] = ("outages", "role_switching", "closed_loop", "max_in_flight"),
) -> Structure:
    """Any schedulers, roles and routers."""
    order = draw(st.sampled_from(QUEUE_ORDERS))
    router = draw(st.sampled_from(router_kinds))
    entries = []
    for role in draw(st.sampled_from(layouts)):
        kind = draw(st.sampled_from(kinds))
        switches = draw(st.fixed_dictionaries(SWITCHES[kind]))
        if isinstance(chunk := switches.get("chunked_prefill_size"), dict):
            switches = {key: value for key, value in switches.items() if key != "chunked_prefill_size"} | chunk
        if router == "central_queue" and "policy" in switches:
            switches["policy"] = "priority" if order == "priority" else "fcfs"
        entries.append(Entry(kind, role, order, switches, on_failure=draw(st.sampled_from(["requeue", "lose"]))))
    decode_kinds = [kind for kind in router_kinds if kind != "central_queue"] or ["least_waiting"]
    decode_router = draw(st.sampled_from(decode_kinds))
    may_switch = "role_switching" in extras and not {router, decode_router} & {"central_queue", "weighted_capacity"}
    return Structure(
        tuple(entries),
        router,
        decode_router,
        draw(st.booleans()),
        draw(st.sampled_from(["none", "link", "nic"])),
        draw(st.sampled_from([0, 0, 1, 4, 32])),
        draw(st.sampled_from([None, *(extra for extra in extras if extra in ("closed_loop", "max_in_flight"))])),
        block_size=draw(st.sampled_from([1, 16])),
        outages=draw(st.sampled_from([0, 0, 1, 2])) if "outages" in extras else 0,
        role_switching=may_switch and draw(st.booleans()),
    )


@st.composite
def fleets_of(draw, structure: Structure, count: int, exact: bool = False, slots: int | None = None) -> DrawnCase:
    """A workload and a fleet of that structure, with so little KV memory that it runs short.

    Args:
        structure: of the fleet.
        count: requests.
        exact: all times are binary fractions, so that sums of them have no error.
        slots: the requests at once of every instance; drawn unless given.
    """
    block_size, entries = structure.block_size, structure.entries
    requests = draw(workloads(count, [block_size, 16], exact=exact))
    for place, request in enumerate(requests):
        request.routing_uniform = draw(st.integers(0, 2**32 - 1)) / 2**32
        others = f"own {place}" if place % 4 == 3 else draw(st.sampled_from("abc"))
        request.session = "abc"[place] if place < 3 else others
    longest = max(request.prompt_tokens + request.output_tokens for request in requests)

    groups = []
    for entry in entries:
        scheduler = draw(schedulers(entry.kind, entry.queue_order, block_size, slots, **entry.switches))
        needed = blocks_needed(scheduler, longest, block_size)
        num_blocks = needed + draw(st.one_of(st.integers(0, 3), st.integers(0, 2 * needed)))
        watermark = draw(st.sampled_from([0.0, 0.1]))
        if watermark and (entry.kind != "vllm_v1" or entry.role == "decode"):  # it must stay free on an idle instance
            num_blocks += num_blocks // 9 + 1
        groups.append(
            {
                "role": entry.role,
                "count": entry.count or draw(st.integers(1, 2)),
                "latency": draw(exact_latencies if exact else linear_latencies),
                "scheduler": scheduler,
                "kv_cache": {"num_blocks": num_blocks, "block_size": block_size, "watermark": watermark},
                "unavailable": draw(outages(structure.outages, exact)),
                "on_failure": entry.on_failure,
            }
        )
    known = structure.known_outputs
    fronts = sum(entry.role != "decode" for entry in entries)
    cluster: dict[str, Any] = {"router": draw(routers(structure.router, known, fronts, exact)), "instances": groups}
    if structure.disaggregated:
        cluster["decode_router"] = draw(routers(structure.decode_router, known, len(entries) - fronts, exact))
        cluster["kv_transfer"] = {
            "latency_s": draw(st.sampled_from([0.0, 2**-13, 2**-5] if exact else [0.0, 1e-4, 3e-2])),
            "bandwidth_bytes_per_s": draw(st.sampled_from([None, 2**20, 2**27] if exact else [None, 7e5, 1e8])),
            "bytes_per_token": 1000,
            "contention": structure.contention,
            "overlap": "layerwise" if structure.layers else "none",
            "layers": structure.layers or 1,
        }
        if structure.role_switching:
            low, high = sorted(draw(st.tuples(st.integers(0, 100), st.integers(0, 100))))
            cluster["role_switching"] = {"queue_tokens_high": high, "queue_tokens_low": low}
    return DrawnCase(cluster, requests, draw(clients(requests, structure.clients, structure.users, exact)))


@st.composite
def clients(draw, requests: list[Request], kind: str | None, users: int | None, exact: bool) -> dict[str, Any] | None:
    """Nothing, a limit of requests in flight, or a closed loop with a drawn think time for every request."""
    if kind is None:
        return None
    limit = users or draw(st.integers(1, 6))
    if kind == "max_in_flight":
        return {"kind": "trace", "max_in_flight": limit}
    for request in requests:
        request.think_s = draw(ticks(20_000, exact))
    return {"kind": "closed_loop", "concurrency": limit, "think_time_s": 0.0}


@st.composite
def fleets(draw, count: int, **narrowed: Any) -> DrawnCase:
    """A workload and any fleet; `narrowed`: arguments of `structures`."""
    return draw(fleets_of(draw(structures(**narrowed)), count))
