"""Workloads drawn from distributions."""

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxsim._component import check, component
from jaxsim.workload.arrivals import Arrivals
from jaxsim.workload.classes import RequestClass, check_classes
from jaxsim.workload.joint import JointLengths, independent
from jaxsim.workload.lengths import Lengths
from jaxsim.workload.random import PAST, Purpose, checked_seeds, draw, uniform_sampler
from jaxsim.workload.requests import MAX_INT32, Requests


@component
class Synthetic:
    """Requests whose arrivals, classes and lengths are drawn independently of each other.

    Attributes:
        num_requests: requests per seed.
        arrivals: the arrival process.
        prompt_tokens: distribution of the prompt lengths.
        output_tokens: distribution of the output lengths.
        lengths: prompt and output together, in place of the two.
        classes: kinds of requests, each with its share, lengths, priority and SLO; null: all are alike.
    """

    kind: Literal["synthetic"] = "synthetic"
    num_requests: int
    arrivals: Arrivals
    prompt_tokens: Lengths | None = None
    output_tokens: Lengths | None = None
    lengths: JointLengths | None = None
    classes: tuple[RequestClass, ...] | None = None

    def __post_init__(self) -> None:
        must = f"a whole number from 1 to {MAX_INT32}"
        check(self, "num_requests", lambda count: isinstance(count, int) and 1 <= count <= MAX_INT32, must)
        if self.classes is None:
            self._lengths(self, "")
            return
        object.__setattr__(self, "classes", tuple(self.classes))
        check_classes(self.classes)
        for place, one in enumerate(self.classes):
            self._lengths(one, f"classes.{place}.")

    @property
    def differs_by_seed(self) -> bool:
        """Whether seeds are independent replications, rather than copies of one run."""
        return True

    def draw(self, seeds: np.ndarray, stratified: bool = False) -> Requests:
        """The requests of every seed, a pure function of the seed numbers.

        One seed gives the same uniforms under every configuration, and a longer run starts like a shorter one. Running
        sums are taken by NumPy, term by term, because XLA groups the terms by the length of the run.

        Args:
            seeds: whole numbers of zero or greater, `[R]`.
            stratified: as in `jaxsim.workload.random.draw`, of all but the states of modulated arrivals.

        Raises:
            ValueError: bad seeds, or a file of observed lengths that cannot be used.
        """
        seeds = checked_seeds(seeds)
        drawn = self._drawn(seeds, self.num_requests, 0, stratified)
        gaps = drawn[Purpose.ARRIVAL]
        clients = self.arrivals.clients(gaps)
        unit_s = np.cumsum(gaps, axis=1, out=gaps if gaps.flags.writeable else None)
        row = np.broadcast_to(np.arange(self.num_requests, dtype=np.int32), unit_s.shape)
        return dataclasses.replace(self._requests(drawn, self.arrivals.arrival_s(unit_s, seeds), row), clients=clients)

    def past(self, seeds: np.ndarray, count: int, stratified: bool = False) -> Requests:
        """The last requests before the start of every seed, in order of arrival; a longer past ends like a shorter one.

        Args:
            seeds: as in `draw`.
            count: how many.
            stratified: as in `draw`.

        Returns:
            Requests that arrived at 0 or before, whose `row` counts up to -1.

        Raises:
            ValueError: the arrivals have no past.
        """
        seeds = checked_seeds(seeds)
        latest_first = self._drawn(seeds, count, PAST, stratified)
        drawn = {purpose: values[:, ::-1] for purpose, values in latest_first.items()}
        unit_s = np.cumsum(latest_first[Purpose.ARRIVAL], axis=1)
        row = np.broadcast_to(np.arange(-count, 0, dtype=np.int32), unit_s.shape)
        return self._requests(drawn, self.arrivals.past_s(unit_s, seeds)[:, ::-1], row)

    def _drawn(self, seeds: np.ndarray, count: int, first: int, stratified: bool) -> dict[Purpose, np.ndarray]:
        samplers = {
            Purpose.ARRIVAL: self.arrivals.unit_gap(),
            Purpose.ROUTING: uniform_sampler,
            **self._length_samplers(),
        }
        lengths_of = (Purpose.PROMPT, Purpose.OUTPUT) if self.classes is None else _BY_CLASS
        inputs = {Purpose.PROMPT: lengths_of, Purpose.OUTPUT: lengths_of}
        return draw(samplers, seeds, count, inputs, first, stratified)

    def _requests(self, drawn: dict[Purpose, np.ndarray], arrival_s: np.ndarray, row: np.ndarray) -> Requests:
        index = np.broadcast_to(np.int32(0), row.shape) if self.classes is None else drawn[Purpose.CLASS]
        return Requests(
            arrival_s=arrival_s,
            prompt_tokens=drawn[Purpose.PROMPT],
            output_tokens=drawn[Purpose.OUTPUT],
            routing_uniform=drawn[Purpose.ROUTING],
            row=row,
            priority=np.array([one.priority for one in self.classes], np.int32)[index] if self.classes else index,
            class_index=index,
            rate_per_s=self.arrivals.rate_per_s,
            class_names=tuple(one.name for one in self.classes or ()),
        )

    def _length_samplers(self) -> dict[Purpose, Partial]:
        if self.classes is None:
            joint = _sampler(*self._lengths(self, ""))
            return {Purpose.PROMPT: Partial(_prompt, joint), Purpose.OUTPUT: Partial(_output, joint)}
        ends = np.cumsum([one.share for one in self.classes])[:-1]
        joints = [_sampler(*self._lengths(one, "")) for one in self.classes]
        return {
            Purpose.CLASS: Partial(_class_index, ends),
            Purpose.PROMPT: Partial(_of_class, ends, tuple(Partial(_prompt, joint) for joint in joints)),
            Purpose.OUTPUT: Partial(_of_class, ends, tuple(Partial(_output, joint) for joint in joints)),
        }

    def _lengths(self, of: "Synthetic | RequestClass", where: str) -> tuple[JointLengths] | tuple[Lengths, Lengths]:
        """The lengths of a class, or of all requests: its own, else the workload's.

        Raises:
            ValueError: there are none, or both kinds; the message begins with the key, whose section is `where`.
        """
        if of.lengths is not None:
            if of.prompt_tokens is not None or of.output_tokens is not None:
                raise ValueError(f"{where}lengths must not be given beside prompt_tokens and output_tokens")
            return (of.lengths,)
        prompt, output = of.prompt_tokens, of.output_tokens
        if prompt is None and output is None and self.lengths is not None:
            return (self.lengths,)
        prompt, output = prompt or self.prompt_tokens, output or self.output_tokens
        if prompt is None or output is None:
            name = "prompt_tokens" if prompt is None else "output_tokens"
            raise ValueError(f"{where}{name} must be given, or lengths in place of prompt_tokens and output_tokens")
        return prompt, output


_BY_CLASS = (Purpose.CLASS, Purpose.PROMPT, Purpose.OUTPUT)


def _sampler(*lengths: Any) -> Partial:
    return lengths[0].tokens() if len(lengths) == 1 else independent(*lengths)


def _prompt(joint: Partial, *uniforms: jax.Array) -> jax.Array:
    return joint(*uniforms)[0]


def _output(joint: Partial, *uniforms: jax.Array) -> jax.Array:
    return joint(*uniforms)[1]


def _class_index(ends: jax.Array, uniform: jax.Array) -> jax.Array:
    return jnp.searchsorted(ends, uniform, side="right").astype(jnp.int32)


def _of_class(ends: jax.Array, samplers: tuple[Partial, ...], uniform: jax.Array, *others: jax.Array) -> jax.Array:
    return jnp.stack([sampler(*others) for sampler in samplers])[_class_index(ends, uniform), jnp.arange(len(uniform))]
