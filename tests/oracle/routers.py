"""Which instance of a group a request goes to (SCHEDULING, "Routing"). Ties go to the lowest index."""

from collections.abc import Callable, Sequence
from typing import Protocol

from tests.oracle.job import Job
from tests.oracle.scheduler import Scheduler

Router = Callable[[Job, "Sequence[HasScheduler]"], int]


class HasScheduler(Protocol):
    scheduler: Scheduler


def round_robin() -> Router:
    turn = -1

    def pick(job: Job, group: Sequence[HasScheduler]) -> int:
        nonlocal turn
        turn = (turn + 1) % len(group)
        return turn

    return pick


def random() -> Router:
    return lambda job, group: int(job.uniform * len(group))


def _least(count: Callable[[Scheduler], int]) -> Router:
    return lambda job, group: min(range(len(group)), key=lambda i: count(group[i].scheduler))


def least_waiting() -> Router:
    return _least(lambda scheduler: scheduler.queued)


def least_outstanding() -> Router:
    return _least(lambda scheduler: scheduler.queued + len(scheduler.running))


ROUTERS = {f.__name__: f for f in (round_robin, random, least_waiting, least_outstanding)}
