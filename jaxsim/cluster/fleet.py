"""A fleet of instances and the requests it serves: simulated as streams where that is the same, else as a whole."""

from collections.abc import Callable, Sequence

from jaxsim import _loop
from jaxsim.cluster import streams, whole
from jaxsim.cluster.served import Fleet as Fleet
from jaxsim.cluster.served import FleetRecords as FleetRecords


def simulate(
    fleets: Sequence[Fleet],
    workers: Sequence[_loop.Worker],
    progress: Callable[[float], None] = lambda share: None,
) -> list[FleetRecords]:
    """Simulate every seed of every fleet; what has equal structure runs side by side, whosever it is.

    A fleet whose router needs no state and whose schedulers all serve streams is simulated instance by instance,
    several times faster than as a whole; results are the same.

    Args:
        fleets: what to simulate.
        workers: where to run.
        progress: called with the share of the work that was just finished.
    """
    found: dict[int, FleetRecords] = {}
    apart = [place for place, fleet in enumerate(fleets) if streams.can_serve(fleet)]
    together = [place for place in range(len(fleets)) if place not in set(apart)]
    for places, program in ((apart, streams.simulate), (together, whole.simulate)):
        if places:
            share = len(places) / len(fleets)
            records = program([fleets[place] for place in places], workers, _part_of(progress, share))
            found |= dict(zip(places, records, strict=True))
    return [found[place] for place in range(len(fleets))]


def _part_of(progress: Callable[[float], None], share: float) -> Callable[[float], None]:
    return lambda done: progress(done * share)
