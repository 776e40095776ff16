"""The summary of a run: every statistic with its confidence interval, as in `summary.json`."""

import dataclasses
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from jaxsim._status import RequestStatus
from jaxsim.metrics.caveats import caveats
from jaxsim.metrics.cluster_sums import Clusters, ClusterSums
from jaxsim.metrics.distribution import Distribution, number, pair, with_interval
from jaxsim.metrics.goodput import NO_GOODPUT, Goodput, goodput
from jaxsim.metrics.intervals import Estimate, Interval, Pool, rare_count_interval
from jaxsim.metrics.per_request import HANDOVER_METRICS
from jaxsim.metrics.per_token import gap_design_effect, mean_gap
from jaxsim.metrics.preemption import preemption
from jaxsim.metrics.quantile_sketch import BinnedPool
from jaxsim.metrics.request_table import BREAKDOWN
from jaxsim.metrics.verdicts import slo_verdicts
from jaxsim.specs.slo import Slo, quantile_of

SCHEMA_VERSION = 1

PERCENTILES = ("p50", "p90", "p95", "p99")
"""Percentiles of every metric; those that the SLO limits, or that are asked for, come on top."""

Percentiles = Mapping[str, Collection[str]]
"""Names of percentiles, such as `p99.9`, by metric."""

NO_MORE: Percentiles = MappingProxyType({})

LATENCIES = ("ttft_s", "tpot_s", "itl_s", "e2e_s", "queue_s", *HANDOVER_METRICS)


def summarise(
    sums: ClusterSums,
    pools: Mapping[str, Pool],
    gaps: BinnedPool,
    slo: Slo,
    *,
    batches: bool,
    seeds_per_cluster: int = 1,
    confidence: float,
    pool_error: float,
    gap_error: float,
    promised: bool,
    more: Percentiles = NO_MORE,
) -> dict[str, Any]:
    """Everything of `summary.json`; what is undefined or cannot be known is None.

    Args:
        sums: the sums of all seeds.
        pools: the pooled values of each latency, in the order of the sums.
        gaps: the pooled gaps between tokens.
        slo: the promises to check.
        batches: the clusters are batches within the run, rather than seeds.
        seeds_per_cluster: as in `Accumulator`.
        confidence: level of the intervals.
        pool_error: bound on the relative error of quantiles of `pools`.
        gap_error: bound on the relative error of quantiles of `gaps`.
        promised: there is a threshold that some request is held to.
        more: percentiles to report beside the usual ones.
    """
    clusters = Clusters(sums, batches, seeds_per_cluster)
    latencies = {**_distributions(clusters, pools, pool_error), "itl_s": _gaps(clusters, gaps, gap_error)}
    latencies = {metric: latencies[metric] for metric in LATENCIES if metric in latencies}
    tables = {metric: of.summary(_percentiles(slo, metric, more), confidence) for metric, of in latencies.items()}

    whole = {metric: of for metric, of in tables.items() if metric not in BREAKDOWN}  # parts say it themselves
    measured, completed = clusters["measured"].sum(), clusters["completed"].sum()
    # Where all clusters attain the same, they borrow the design effect of a tail that they do differ in.
    effect = latencies["ttft_s"].quantile(0.9, confidence).design_effect
    served = goodput(clusters, sums.arrival_rate_per_s, confidence, effect)
    attained = served.attainment, served.attainment_interval
    kv = clusters.service("kv_token_seconds", "kv_capacity_token_seconds")
    return {
        "schema_version": SCHEMA_VERSION,
        **tables,
        **_rate("throughput_requests_per_s", clusters.service("completions_per_s", "span"), confidence),
        **_rate("throughput_tokens_per_s", clusters.service("tokens_per_s", "span"), confidence),
        **_goodput(served if promised else NO_GOODPUT),
        "slo_verdicts": slo_verdicts(slo, latencies, int(measured - completed), attained, confidence),
        "arrival_rate_per_s": number(np.mean(sums.arrival_rate_per_s)),
        "preemptions": int(sums.preemptions.sum()),
        "preemptions_ci": pair(_preemptions_interval(sums, clusters, confidence)),
        "recomputed_tokens": int(sums.recomputed_tokens.sum()),
        "preemption": preemption(sums, clusters, kv.value, confidence, effect),
        **with_interval("kv_utilisation", kv.value, kv.interval(confidence, high=1.0)),
        "num_requests": int(sums.num_requests.sum()),
        "num_measured": int(measured),
        "num_completed": int(sums.statuses[:, RequestStatus.COMPLETED].sum()),
        "status_counts": {status.name.lower(): int(sums.statuses[:, status].sum()) for status in RequestStatus},
        "iterations": int(sums.iterations.sum()),
        "seeds": len(sums.seed),
        "seeds_incomplete": int(np.count_nonzero(sums.lane_status)),
        "ci_confidence": confidence,
        "ci_method": "batch_means" if batches else "replications",
        "ci_clusters": len(clusters),
        "warnings": caveats(sums, clusters, batches, whole, gaps),
    }


def summarise_class(
    sums: ClusterSums,
    pools: Mapping[str, Pool],
    slo: Slo,
    *,
    batches: bool,
    seeds_per_cluster: int = 1,
    confidence: float,
    pool_error: float,
    more: Percentiles = NO_MORE,
) -> dict[str, Any]:
    """What `summary.json` says of one class of requests: its latencies, its SLO and its goodput.

    Gaps between tokens are counted for all classes together, so there is no `itl_s`, and no verdict on a limit of it.

    Args:
        sums: the sums over the requests of the class.
        pools: the pooled values of each latency of the class.
        slo: what the class was promised.
        batches: as in `summarise`, like the following.
        confidence: level of the intervals.
        pool_error: bound on the relative error of quantiles of `pools`.
        more: as in `summarise`.
    """
    clusters = Clusters(sums, batches, seeds_per_cluster)
    latencies = _distributions(clusters, pools, pool_error)
    measured, completed = clusters["measured"].sum(), clusters["completed"].sum()
    effect = latencies["ttft_s"].quantile(0.9, confidence).design_effect
    served = goodput(clusters, sums.arrival_rate_per_s, confidence, effect)
    attained = served.attainment, served.attainment_interval
    without_gaps = dataclasses.replace(slo, itl_s=None)
    return {
        **{
            metric: latencies[metric].summary(_percentiles(slo, metric, more), confidence)
            for metric in LATENCIES
            if metric in latencies
        },
        **_goodput(served if slo.thresholds else NO_GOODPUT),
        "slo_verdicts": slo_verdicts(without_gaps, latencies, int(measured - completed), attained, confidence),
        "arrival_rate_per_s": number(np.mean(sums.arrival_rate_per_s)),
        "num_measured": int(measured),
        "num_completed": int(completed),
    }


def _distributions(clusters: Clusters, pools: Mapping[str, Pool], pool_error: float) -> dict[str, Distribution]:
    """The latencies that requests have one of."""
    found = {}
    for index, metric in enumerate(pools):
        count = clusters["latency_count"][:, index]
        mean = Estimate.ratio(clusters["latency_s"][:, index], count)
        found[metric] = Distribution(mean, pools[metric], int(count.sum()), clusters.copies, pool_error)
    return found


def _gaps(clusters: Clusters, gaps: BinnedPool, gap_error: float) -> Distribution:
    """The gaps between tokens."""
    mean = mean_gap(clusters["gap_s"], clusters["gaps"])
    effect = gap_design_effect(mean, gaps, clusters.copies) if gaps.num_clusters == 1 else None
    return Distribution(mean, gaps, gaps.total, clusters.copies, gap_error, effect, len(clusters))


def check_percentiles(more: Percentiles) -> None:
    """A ValueError unless these are percentiles of latencies that a run has."""
    for metric, names in more.items():
        if metric not in LATENCIES:
            raise ValueError(f"percentiles must be of {', '.join(LATENCIES)}, not of {metric!r}")
        for name in names:
            if quantile_of(name) is None:
                raise ValueError(f"percentiles of {metric} must be such as p99.9, not {name!r}")


def _percentiles(slo: Slo, metric: str, more: Percentiles) -> dict[str, float]:
    """Shares of the percentiles to report of a metric, ascending, by name."""
    promised = (limit.statistic for limit in slo.limits if metric in (limit.metric, slo.counted(limit.metric)))
    names = {*PERCENTILES, *promised, *more.get(metric, ())}
    shares = [(share, name) for name in names if (share := quantile_of(name)) is not None]
    return {name: share for share, name in sorted(shares)}


def _goodput(served: Goodput) -> dict[str, Any]:
    return {
        **with_interval("slo_attainment", served.attainment, served.attainment_interval),
        **with_interval("goodput_requests_per_s", served.requests_per_s, served.requests_interval),
        **with_interval("goodput_tokens_per_s", served.tokens_per_s, served.tokens_interval),
    }


def _rate(name: str, estimate: Estimate, confidence: float) -> dict[str, Any]:
    return with_interval(name, estimate.value, estimate.interval(confidence))


def _preemptions_interval(sums: ClusterSums, clusters: Clusters, confidence: float) -> Interval | None:
    """The interval of the total, from how preemptions per measured request differ between clusters."""
    total = int(sums.preemptions.sum())
    if not total:
        return rare_count_interval(confidence) if len(clusters) > 1 else None
    per_request = Estimate.ratio(clusters["measured_preemptions"], clusters["measured"])
    if not per_request.value > 0:
        return None
    return (per_request * (total / per_request.value)).interval(confidence)
