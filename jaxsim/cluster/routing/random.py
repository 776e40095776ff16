"""Any instance, uniformly."""

from typing import Literal

import numpy as np

from jaxsim._component import component
from jaxsim.cluster.routing.base import StaticRouter


@component
class Random(StaticRouter):
    """Sends each request to an instance drawn uniformly with the request's own random number."""

    kind: Literal["random"] = "random"

    def assign(self, accepted: np.ndarray, uniform: np.ndarray, instances: int) -> np.ndarray:
        """See `StaticRouter.assign`: instance `floor(uniform * instances)`."""
        return (uniform * instances).astype(np.int32)
