"""What a reader of a summary should know before trusting it, as sentences."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxsim._status import LaneStatus, RequestStatus
from jaxsim.metrics.cluster_sums import Clusters, ClusterSums
from jaxsim.metrics.per_request import METRICS
from jaxsim.metrics.quantile_sketch import BinnedPool
from jaxsim.specs.slo import quantile_of

_CORRELATED = 0.4
"""Lag-1 correlation that 20 independent batch means exceed about once in 40 runs."""


def caveats(
    sums: ClusterSums,
    clusters: Clusters,
    batches: bool,
    distributions: Mapping[str, Mapping[str, Any]],
    gaps: BinnedPool,
) -> list[str]:
    """Sentences about lost requests, stopped seeds, and intervals and percentiles that say less than they seem to."""
    return [
        *_incomplete(sums),
        *_clusters(clusters, batches),
        *_truncated(distributions),
        *_outside_bins(distributions["itl_s"], gaps),
    ]


def _incomplete(sums: ClusterSums) -> list[str]:
    found = []
    for status in RequestStatus:
        count, total = int(sums.statuses[:, status].sum()), int(sums.num_requests.sum())
        if status != RequestStatus.COMPLETED and count:
            found.append(
                f"{count:,} of {total:,} requests {status.name.lower()} (each {status.advice}): "
                "they miss the SLO and are left out of all latencies"
            )
    for code in LaneStatus:
        if code != LaneStatus.OK and (count := int(np.count_nonzero(sums.lane_status == code))):
            found.append(f"{count:,} of {len(sums.seed):,} seeds stopped early: {code.advice}")
    return found


def _clusters(clusters: Clusters, batches: bool) -> list[str]:
    if len(clusters) < 2:
        kind = "measured request" if batches else "seed"
        return [f"no confidence intervals: they need more than one {kind}"]
    if not batches:
        return []
    count, total = (clusters[name][:, METRICS.index("e2e_s")] for name in ("latency_count", "latency_s"))
    deviation = total[count > 0] / count[count > 0]
    deviation = deviation - deviation.mean() if len(deviation) else deviation
    if np.sum(deviation[1:] * deviation[:-1]) <= _CORRELATED * np.sum(deviation**2):
        return []
    return [
        "latencies drift or are correlated over the whole run: intervals from batches of one run are too narrow; "
        "simulate several seeds, or a longer run"
    ]


def _truncated(distributions: Mapping[str, Mapping[str, Any]]) -> list[str]:
    found = [f"{metric} {', '.join(of['ci_truncated'])}" for metric, of in distributions.items() if of["ci_truncated"]]
    if not found:
        return []
    return [f"too few requests for the whole interval of {'; '.join(found)}: it ends at the extreme value seen"]


def _outside_bins(itl: Mapping[str, Any], gaps: BinnedPool) -> list[str]:
    shares = [quantile_of(name) for name in itl]
    ends = (0, gaps.num_bins - 1)
    if not gaps.total or not any(share is not None and gaps.bin_of(share) in ends for share in shares):
        return []
    return ["percentiles of itl_s reach beyond the range of its bins, where their error is not bounded"]
