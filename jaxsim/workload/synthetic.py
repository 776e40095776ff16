"""Workloads drawn from distributions."""

from typing import Literal

import numpy as np

from jaxsim._component import check, component
from jaxsim.workload.arrivals import Arrivals
from jaxsim.workload.lengths import Lengths
from jaxsim.workload.random import Purpose, checked_seeds, draw, uniform_sampler
from jaxsim.workload.requests import MAX_INT32, Requests


@component
class Synthetic:
    """Requests whose arrivals, prompts and outputs are drawn independently.

    Attributes:
        num_requests: requests per seed.
        arrivals: the arrival process.
        prompt_tokens: distribution of the prompt lengths.
        output_tokens: distribution of the output lengths.
    """

    kind: Literal["synthetic"] = "synthetic"
    num_requests: int
    arrivals: Arrivals
    prompt_tokens: Lengths
    output_tokens: Lengths

    def __post_init__(self) -> None:
        must = f"a whole number from 1 to {MAX_INT32}"
        check(self, "num_requests", lambda count: isinstance(count, int) and 1 <= count <= MAX_INT32, must)

    def draw(self, seeds: np.ndarray) -> Requests:
        """The requests of every seed, a pure function of the seed numbers.

        One seed gives the same uniforms under every configuration, and a longer run starts like a shorter one. Running
        sums are taken by NumPy, term by term, because XLA groups the terms by the length of the run.

        Args:
            seeds: whole numbers of zero or greater, `[R]`.

        Raises:
            ValueError: bad seeds, or a file of observed lengths that cannot be used.
        """
        seeds = checked_seeds(seeds)
        samplers = {
            Purpose.ARRIVAL: self.arrivals.unit_gap(),
            Purpose.PROMPT: self.prompt_tokens.tokens(),
            Purpose.OUTPUT: self.output_tokens.tokens(),
            Purpose.ROUTING: uniform_sampler,
        }
        drawn = draw(samplers, seeds, self.num_requests)
        unit_s = np.cumsum(drawn[Purpose.ARRIVAL], axis=1, out=drawn[Purpose.ARRIVAL])
        shape = unit_s.shape
        zeros = np.broadcast_to(np.int32(0), shape)
        return Requests(
            arrival_s=self.arrivals.arrival_s(unit_s, seeds),
            prompt_tokens=drawn[Purpose.PROMPT],
            output_tokens=drawn[Purpose.OUTPUT],
            routing_uniform=drawn[Purpose.ROUTING],
            row=np.broadcast_to(np.arange(self.num_requests, dtype=np.int32), shape),
            priority=zeros,
            class_index=zeros,
            rate_per_s=self.arrivals.rate_per_s,
        )
