"""How much is lost to preemptions, and whether the KV pool is to blame for what a run finds."""

import math
from typing import Any

from jaxsim.metrics.cluster_sums import Clusters, ClusterSums
from jaxsim.metrics.distribution import number, with_interval
from jaxsim.metrics.intervals import Estimate, proportion_interval

_TELLING = 0.01
"""Share of requests preempted, or of tokens computed again, from which on a sentence is worth it."""


def preemption(
    sums: ClusterSums,
    clusters: Clusters,
    kv_utilisation: float,
    confidence: float,
    design_effect: float,
) -> dict[str, Any]:
    """`preemption` of `summary.json`.

    `requests` and `requests_share` are measured requests that were preempted at least once; `recomputed_share` is the
    share of all computed tokens, warm-up included, that had been computed before. `explanation` is a sentence where the
    KV pool costs something worth mentioning, else None.

    Args:
        sums: the sums of all seeds.
        clusters: the same by cluster.
        kv_utilisation: mean share of the KV pools that holds tokens; nan: they are unlimited.
        confidence: level of the intervals.
        design_effect: of a share of requests, where all clusters have the same.
    """
    requests = Estimate.ratio(clusters["preempted"], clusters["measured"])
    of_requests = proportion_interval(
        requests, clusters["measured"].sum() / clusters.copies, confidence, design_effect=design_effect
    )
    again = int(sums.recomputed_tokens.sum())
    computed = again + int(sums.needed_tokens.sum())
    tokens = again / computed if computed else math.nan
    return {
        "requests": int(clusters["preempted"].sum()),
        **with_interval("requests_share", requests.value, of_requests),
        "recomputed_tokens": again,
        "recomputed_share": number(tokens),
        "explanation": _explanation(requests.value, tokens, kv_utilisation),
    }


def _explanation(requests: float, tokens: float, kv_utilisation: float) -> str | None:
    if not (requests >= _TELLING or tokens >= _TELLING):
        return None
    full = "" if math.isnan(kv_utilisation) else f", of which {_percent(kv_utilisation)} is in use on average"
    return (
        f"{_percent(requests)} of requests were preempted for want of KV memory{full}, and {_percent(tokens)} of all "
        "tokens were computed again; see kv_cache.num_blocks"
    )


def _percent(share: float) -> str:
    return f"{share * 100:.{1 if share < 0.1 else 0}f} %"
