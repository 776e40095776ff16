"""Classes of requests, each held to its own promise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jaxsim.specs.slo import Slo


@dataclass(frozen=True)
class ServiceClass:
    """A class of requests.

    Attributes:
        name: what results call it.
        slo: what it was promised.
    """

    name: str
    slo: Slo


def thresholds_by_class(classes: Sequence[ServiceClass], class_index: np.ndarray) -> Mapping[str, np.ndarray]:
    """What each request is held to: seconds by metric, of the shape of `class_index`; infinite without a limit."""
    metrics = dict.fromkeys(metric for one in classes for metric in one.slo.thresholds)
    limits = {metric: np.array([one.slo.thresholds.get(metric, np.inf) for one in classes]) for metric in metrics}
    return {metric: limit[class_index] for metric, limit in limits.items()}
