"""How many requests are served well, and how many of them a second."""

import math
from dataclasses import dataclass

import numpy as np

from jaxsim.metrics.cluster_sums import Clusters
from jaxsim.metrics.intervals import Estimate, Interval, proportion_interval


@dataclass(frozen=True, eq=False)
class Goodput:
    """How many requests are served well, over clusters.

    Attributes:
        attainment: share of measured requests that meet the SLO.
        requests_per_s: attainment x arrival rate.
        tokens_per_s: attainment x arrival rate x output tokens per completed request.
        attainment_interval: of the attainment; inside [0, 1], and with a width even if every request was good.
        requests_interval: of `requests_per_s`.
        tokens_interval: of `tokens_per_s`.
    """

    attainment: float
    requests_per_s: float
    tokens_per_s: float
    attainment_interval: Interval | None
    requests_interval: Interval | None
    tokens_interval: Interval | None


NO_GOODPUT = Goodput(math.nan, math.nan, math.nan, None, None, None)
"""What is known without a threshold that a request can meet."""


def goodput(clusters: Clusters, rates_per_s: np.ndarray, confidence: float, design_effect: float = math.nan) -> Goodput:
    """SLO attainment and goodput.

    Args:
        clusters: the sums over measured requests.
        rates_per_s: arrival rate of each seed.
        confidence: level of the intervals.
        design_effect: that of attainment, where all clusters attain the same and so cannot tell it.
    """
    attainment = Estimate.ratio(clusters["good"], clusters["measured"])
    requests_per_s = Estimate.ratio(clusters.good_rate, clusters["measured"])
    tokens_per_s = requests_per_s * Estimate.ratio(clusters["tokens"], clusters["completed"])
    share = proportion_interval(
        attainment, clusters["measured"].sum() / clusters.copies, confidence, design_effect=design_effect
    )
    of_requests = requests_per_s.interval(confidence)
    if share is not None and np.ptp(rates_per_s) == 0:
        of_requests = Interval(share.low * rates_per_s[0], share.high * rates_per_s[0])
    return Goodput(
        attainment=attainment.value,
        requests_per_s=requests_per_s.value,
        tokens_per_s=tokens_per_s.value,
        attainment_interval=share,
        requests_interval=of_requests,
        tokens_interval=tokens_per_s.interval(confidence),
    )
