"""Which instance of a group a request goes to (SCHEDULING, "Routing"). Ties go to the lowest index."""

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Protocol

from tests.oracle.instance import Instance
from tests.oracle.job import Job


class Router(Protocol):
    def pick(self, job: Job, uniform: float, group: Sequence[Instance], now: float) -> Instance | None:
        """One of the group, or None: the request waits in the central queue. `uniform` is the request's own number."""


class RoundRobin:
    """The next in turn after the one picked last."""

    def __init__(self, fleet: Sequence[Instance]):
        self._last = -1

    def pick(self, job: Job, uniform: float, group: Sequence[Instance], now: float) -> Instance:
        later = [instance for instance in group if instance.index > self._last]
        chosen = (later or group)[0]
        self._last = chosen.index
        return chosen


class Random:
    def __init__(self, fleet: Sequence[Instance]):
        pass

    def pick(self, job: Job, uniform: float, group: Sequence[Instance], now: float) -> Instance:
        return group[int(uniform * len(group))]


class WeightedCapacity:
    """Randomly, in proportion to weights: one number an entry of `instances` that the router serves."""

    def __init__(self, fleet: Sequence[Instance], serves: Callable[[Instance], bool], weights: Sequence[float]):
        entries = sorted({instance.entry for instance in fleet if serves(instance)})
        self._weights = dict(zip(entries, weights, strict=True))

    def pick(self, job: Job, uniform: float, group: Sequence[Instance], now: float) -> Instance:
        sums = list(accumulate(self._weights[instance.entry] for instance in group))
        above = [i for i, total in enumerate(sums) if total > uniform * sums[-1]]
        return group[above[0] if above else -1]


class CentralQueue:
    def __init__(self, fleet: Sequence[Instance]):
        pass

    def pick(self, job: Job, uniform: float, group: Sequence[Instance], now: float) -> None:
        return None


class Counter:
    """What a router knows about every instance. With `staleness_s` it looks again when a request comes and its last
    look is that old; in between it adds what it assigns itself."""

    def __init__(
        self,
        fleet: Sequence[Instance],
        count: Callable[[Instance], float],
        adds: Callable[[Job, Instance], float],
        staleness_s: float = 0.0,
    ):
        self._fleet, self._count, self._adds, self._staleness_s = fleet, count, adds, staleness_s
        self._looked = -math.inf
        self._counts: dict[Instance, float] = {}

    def look(self, now: float) -> dict[Instance, float]:
        if now - self._looked >= self._staleness_s:
            self._looked = now
            self._counts = {instance: self._count(instance) for instance in self._fleet}
        return self._counts

    def add(self, job: Job, chosen: Instance) -> None:
        self._counts[chosen] += self._adds(job, chosen)


class Least:
    """The instance with the smallest count."""

    def __init__(self, counter: Counter, share: Callable[[float, Instance], float] = lambda count, instance: count):
        self._counter, self._share = counter, share

    def pick(self, job: Job, uniform: float, group: Sequence[Instance], now: float) -> Instance:
        counts = self._counter.look(now)
        chosen = min(group, key=lambda instance: self._share(counts[instance], instance))
        self._counter.add(job, chosen)
        return chosen


class PowerOfTwo:
    """The less busy of two instances that the request's number draws."""

    def __init__(self, counter: Counter):
        self._least = Least(counter)

    def pick(self, job: Job, uniform: float, group: Sequence[Instance], now: float) -> Instance:
        if len(group) > 1:
            first = int(uniform * len(group))
            second = int((uniform * len(group) - first) * (len(group) - 1))
            second += second >= first
            group = [group[i] for i in sorted((first, second))]
        return self._least.pick(job, uniform, group, now)


class SessionAffinity:
    """Where the session's last request went, while that instance is in the group; else the least busy one."""

    def __init__(self, counter: Counter):
        self._counter = counter
        self._least = Least(counter)
        self._home: dict[str, Instance] = {}

    def pick(self, job: Job, uniform: float, group: Sequence[Instance], now: float) -> Instance:
        self._counter.look(now)
        home = self._home.get(job.session) if job.session is not None else None
        if home is not None and home in group:
            self._counter.add(job, home)
            return home
        chosen = self._least.pick(job, uniform, group, now)
        if job.session is not None:
            self._home[job.session] = chosen
        return chosen


def tokens_added(job: Job, instance: Instance, known_outputs: bool) -> int:
    """What a request that is sent there (with its KV, if it has any) adds to the tokens left."""
    prompt = 0 if job.computed else job.known
    outputs = 1 if instance.lets_go else instance.scheduler.all_outputs(job) - job.emitted
    return prompt + known_outputs * outputs


def build(
    fleet: Sequence[Instance],
    serves: Callable[[Instance], bool],
    *,
    kind: str,
    staleness_s: float = 0.0,
    known_outputs: bool = True,
    weights: Sequence[float] = (),
) -> Router:
    """The router that a scenario asks for; `serves` tells which instances are in its group by their role."""

    def counter(count: Callable[[Instance], float], adds: Callable[[Job, Instance], float] = lambda *_: 1) -> Counter:
        return Counter(fleet, count, adds, staleness_s)

    match kind:
        case "round_robin":
            return RoundRobin(fleet)
        case "random":
            return Random(fleet)
        case "weighted_capacity":
            return WeightedCapacity(fleet, serves, weights)
        case "central_queue":
            return CentralQueue(fleet)
        case "least_waiting":
            return Least(counter(lambda instance: instance.scheduler.queued))
        case "least_outstanding":
            return Least(counter(lambda instance: instance.scheduler.outstanding))
        case "least_tokens":
            return Least(
                counter(
                    lambda instance: instance.scheduler.tokens_left(known_outputs),
                    lambda job, instance: tokens_added(job, instance, known_outputs),
                )
            )
        case "least_kv":
            return Least(
                counter(
                    lambda instance: instance.scheduler.used_blocks,
                    lambda job, instance: instance.scheduler.blocks(job.prompt + 1),
                ),
                share=lambda blocks, instance: blocks / instance.scheduler.capacity,
            )
        case "power_of_two":
            return PowerOfTwo(counter(lambda instance: instance.scheduler.outstanding))
        case "session_affinity":
            return SessionAffinity(counter(lambda instance: instance.scheduler.outstanding))
    raise ValueError(kind)
