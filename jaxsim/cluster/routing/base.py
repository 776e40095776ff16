"""What every router gives the fleet."""

import abc

import numpy as np


class AbstractRouter(abc.ABC):
    """Chooses the instance of every request, before the run: from the request alone, not from the state of the fleet.

    Each instance then has its own stream of requests, and the fleet is simulated as independent lanes.
    """

    @abc.abstractmethod
    def assign(self, accepted: np.ndarray, uniform: np.ndarray, instances: int) -> np.ndarray:
        """The instance of every request.

        Args:
            accepted: bool `[R, N]`, requests that are routed at all, in order of arrival along N.
            uniform: float64 `[R, N]` in [0, 1), each request's own random number.
            instances: how many instances the group has.

        Returns:
            int32 `[R, N]` in `[0, instances)`; what it holds for requests that are not accepted does not matter.
        """
