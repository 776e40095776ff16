"""Latency models fitted to samples: which of their parameters, from which prior, and by which method."""

import abc
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from jaxsim.analysis.samples import Samples, Seconds, Terms
from jaxsim.analysis.solvers import held, non_negative
from jaxsim.latency import AbstractLatency, Linear, Roofline
from jaxsim.operators import KernelEfficiency

SAMPLE_ERROR = 0.04
"""Relative error of a sample that no clock explains: what a prior is weighed against."""


class Fitted(NamedTuple):
    """A fitted clock."""

    seconds: Seconds
    latency: AbstractLatency
    """The component; of a clock with a residual, the one that the residual corrects."""
    parameters: Mapping[str, float]
    """Fitted values by name."""


class Fit(abc.ABC):
    """A way to fit a latency model. Errors are relative."""

    name: ClassVar[str]

    @abc.abstractmethod
    def fit(self, samples: Samples) -> Fitted:
        """The clock that fits the samples best."""


@dataclass(frozen=True)
class LinearFit(Fit):
    """`Linear` by non-negative least squares."""

    name = "linear"

    def fit(self, samples: Samples) -> Fitted:
        """Raises ValueError if the samples leave no fixed time and no time per token."""
        columns = np.stack([(samples.count * samples.terms[term]).sum(axis=1) for term in Linear.terms], axis=1)
        columns = np.concatenate([samples.count.sum(axis=1)[:, None], columns], axis=1)
        found = non_negative(columns / samples.time_s[:, None], np.ones(len(samples)))
        names = ("base_s", "per_token_s", "per_context_token_s", "per_prefill_pair_s")
        parameters = dict(zip(names, map(_short, found), strict=True))

        def seconds(terms: Terms) -> np.ndarray:
            total = np.full(np.shape(terms["new_tokens"]), parameters["base_s"])
            for name, term in zip(names[1:], Linear.terms, strict=True):
                total = total + parameters[name] * terms[term]
            return total

        numbers: dict[str, Any] = dict(parameters)
        return Fitted(seconds, Linear(**numbers), parameters)


def _short(value: float) -> float:
    """A fitted value with as many digits as it deserves."""
    return float(f"{value:.6g}")


class _Parameter(NamedTuple):
    """A number of a roofline that is fitted, in logarithms."""

    prior: float
    spread: float
    """Standard deviation of its logarithm."""
    low: float
    high: float


_SHARE = {"spread": 0.2, "low": 0.05, "high": 1.0}
_TIME = {"spread": 0.4, "low": 1e-8, "high": 1e-3}
_HOST = {"prior": 2e-4, "spread": 1.5, "low": 1e-7, "high": 0.1}
_MIXED = {"spread": 1.5, "low": 1e-8, "high": 1e-2}


@dataclass(frozen=True)
class RooflineFit(Fit):
    """The efficiencies and overheads of a `Roofline`, its host time and its cost of mixed iterations.

    Each is held at what it was before (as shipped for the hardware, if the roofline says nothing else), as firmly as
    one sample would: a share to 20 %, an overhead to 40 %. A dozen samples correct what they show and leave the rest.

    Attributes:
        clock: the roofline before.
    """

    name = "roofline"

    clock: Roofline

    @functools.cached_property
    def parameters(self) -> Mapping[str, _Parameter]:
        """What is fitted, by its path among the parameters of the roofline."""
        before = self.clock.efficiencies
        found = {}
        for kind in dict.fromkeys(operator.kind for operator in self.clock.operators):
            if kind in ("fixed", "elementwise"):
                continue
            kernel: KernelEfficiency = getattr(before, kind)
            if kind not in ("decode_attention", "collective"):
                found[f"efficiency.{kind}.compute"] = _Parameter(kernel.compute, **_SHARE)
            if kind != "prefill_attention":  # prompts read the KV cache as decodes do
                found[f"efficiency.{kind}.memory"] = _Parameter(kernel.memory, **_SHARE)
            found[f"efficiency.{kind}.overhead_s"] = _Parameter(max(kernel.overhead_s, 1e-6), **_TIME)
        found["efficiency.mixed_layer_s"] = _Parameter(max(before.mixed_layer_s or 0.0, 1e-6), **_MIXED)
        found["host_s"] = _Parameter(**_HOST | ({"prior": self.clock.host_s} if self.clock.host_s else {}))
        return found

    def clock_of(self, values: Mapping[str, float]) -> Roofline:
        """The roofline with some of its parameters replaced."""
        before = self.clock.efficiencies
        kernels: dict[str, KernelEfficiency] = {}
        for path, value in values.items():
            match path.split("."):
                case ["efficiency", kind, field]:
                    kernels[kind] = replace(kernels.get(kind, getattr(before, kind)), **{field: value})
        if "decode_attention" in kernels:
            prefill = kernels.get("prefill_attention", before.prefill_attention)
            assert prefill is not None
            kernels["prefill_attention"] = replace(prefill, memory=kernels["decode_attention"].memory)
        changed: dict[str, Any] = {**kernels, "mixed_layer_s": values["efficiency.mixed_layer_s"]}
        return replace(self.clock, efficiency=replace(before, **changed), host_s=values["host_s"])

    def fit(self, samples: Samples) -> Fitted:
        """See `Fit.fit`."""
        names = list(self.parameters)
        prior, spread, low, high = (np.array(column) for column in zip(*self.parameters.values(), strict=True))

        def values(logs: np.ndarray) -> dict[str, float]:
            return dict(zip(names, map(float, np.exp(logs)), strict=True))

        def errors(logs: np.ndarray) -> np.ndarray:
            return np.log1p(samples.errors(self.clock_of(values(logs)).seconds))

        start = np.log(np.clip(prior, low, high))
        logs = held(errors, start, spread, np.log(low), np.log(high), SAMPLE_ERROR)
        found = {name: _short(value) for name, value in values(logs).items()}
        clock = self.clock_of(found)
        return Fitted(clock.seconds, clock, found)


@dataclass(frozen=True)
class ResidualFit(Fit):
    """Another fit, corrected by what it misses at the samples: a Gaussian process over the logarithms of the batch.

    Far from the samples the correction fades.

    Attributes:
        base: the fit that is corrected.
        length: distance in logarithms over which a correction reaches.
    """

    name = "residual"

    base: Fit
    length: float = 1.5

    def fit(self, samples: Samples) -> Fitted:
        """Raises ValueError for samples of more than one iteration."""
        if samples.of != "steps":
            raise ValueError(f"{samples.source}: a residual needs samples of single iterations")
        fitted = self.base.fit(samples)
        missed = -np.log1p(samples.errors(fitted.seconds))
        at = _features(samples.terms).reshape(len(samples), -1)
        variance = max(float(np.mean(missed**2)), 1e-8)
        noise = min(SAMPLE_ERROR / 4, math.sqrt(variance)) ** 2
        weights = np.linalg.solve(variance * self._kernel(at, at) + noise * np.eye(len(samples)), missed)

        def seconds(terms: Terms) -> np.ndarray:
            features = _features(terms)
            flat = features.reshape(-1, features.shape[-1])
            correction = np.exp(variance * self._kernel(flat, at) @ weights).reshape(features.shape[:-1])
            return fitted.seconds(terms) * correction

        return Fitted(seconds, fitted.latency, fitted.parameters)

    def _kernel(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        squares = ((a[:, None] - b[None]) ** 2).sum(axis=-1)
        return np.exp(-squares / (2 * self.length**2))


def _features(terms: Terms) -> np.ndarray:
    """Logarithms of prompt tokens, context before them, decodes and their mean context, on a new last axis."""
    tokens, seqs = terms["prefill_tokens"], terms["decode_seqs"]
    before = (terms["prefill_pairs"] - terms["prefill_squares"]) / np.maximum(tokens, 1)
    numbers = (tokens, before, seqs, terms["context_tokens"] / np.maximum(seqs, 1))
    return np.stack([np.log1p(np.maximum(number, 0)) for number in numbers], axis=-1)
