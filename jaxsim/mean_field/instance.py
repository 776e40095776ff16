"""Continuous batching in the mean: the batch a request sees, how long its iterations take, the most an engine bears.

Requests in service feed the batch, the batch sets the time of an iteration, that time sets how many requests are in
service. The fixed point of this circle, by Little's law (Little 1961), gives mean latencies and the stability limit:

* `y` requests are served per iteration. Decoding takes `y (n - 1)` seats of the batch on average for `n` output tokens.
* A request sees the others as they are in the mean, and itself: `1 + theta y (n - 1)` decodes, where
  `theta = (c - 1) / c` of c slots are others'. One slot or slots without end are exact.
* A share `1 - exp(-x)` of iterations holds prompt chunks, x per iteration in the mean; both kinds are priced by the
  scenario's own latency model at mean context lengths.
* So `y` gives the iteration time T(y), and the arrival rate that keeps it up is y / T(y). The limit is the largest such
  rate at which neither slots (or KV blocks) nor the token budget are exceeded.

Checked in tests where it is exact: one slot, a delay line, processor sharing.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim._component import as_arrays
from jaxsim.config.schema import Instance
from jaxsim.latency import AbstractLatency
from jaxsim.latency import terms as batch_terms
from jaxsim.mean_field.mix import Mix, scv

_POINTS = 65
"""Values of y that are priced at once; the fixed point is interpolated between them."""


@dataclass(frozen=True)
class OperatingPoint:
    """One instance in the mean at some arrival rate; times in seconds.

    Attributes:
        rate_per_s: requests per second that arrive at the instance.
        limit_per_s: requests per second beyond which its queue grows without end.
        limited_by: what runs out at the limit.
        slots: requests that can be in service at once.
        batch: decodes in the batch that a decoding request sees, itself included.
        in_service: requests in service.
        step_s: iteration time that a decoding request sees: its TPOT.
        chunk_step_s: time of the iterations that compute a request's prompt.
        chunks: iterations that a request's prompt takes.
        service_s: time from admission to the last token, mean.
        service_scv: its squared coefficient of variation over requests.
        fading_s: time after which a thousandth of the requests in service were in service before.
        alignment_s: wait for the end of an iteration under way, given that one is, and with asynchronous scheduling for
            the one after it, which is composed already.
        prefill_wait_s: wait behind other prompts for the token budget.
        work_s: engine time per request at the limit, `1 / limit_per_s`.
        work_scv: its squared coefficient of variation over requests.
        work_prefill_s: its part before the first token.
        work_token_s: its part per output token after the first.
    """

    rate_per_s: float
    limit_per_s: float
    limited_by: Literal["slots", "kv_cache", "token budget"]
    slots: float
    batch: float
    in_service: float
    step_s: float
    chunk_step_s: float
    chunks: float
    service_s: float
    service_scv: float
    fading_s: float
    alignment_s: float
    prefill_wait_s: float
    work_s: float
    work_scv: float
    work_prefill_s: float
    work_token_s: float

    @property
    def stable(self) -> bool:
        """Whether the instance keeps up."""
        return self.rate_per_s < self.limit_per_s


class MeanField:
    """One instance of a group as a function of the rate that arrives at it.

    A prefill instance serves requests of one token, a decode instance prompts that cost nothing.

    Args:
        instance: the group.
        mix: lengths of the requests.
    """

    def __init__(self, instance: Instance, mix: Mix) -> None:
        self._latency = instance.latency
        self._mix = mix
        policy = instance.scheduler
        self._prefills = instance.role != "decode"
        self._outputs = (
            _emitted(instance, mix) - 1.0 if instance.role != "prefill" else np.zeros(len(mix.output_tokens))
        )
        self._mean_outputs = float(self._outputs.mean())
        self._prompts, counts = np.unique(mix.prompt_tokens, return_counts=True)
        self._weights = counts / counts.sum()
        self._budget = float(getattr(policy, "max_num_batched_tokens", 1 << 20))
        self._chunked = bool(getattr(policy, "enable_chunked_prefill", True))
        self._composed_ahead = int(getattr(policy, "async_scheduling", False))
        decode_tokens = self._outputs * mix.prompt_tokens + self._outputs * (self._outputs + 1) / 2
        all_outputs = self._outputs.sum()
        self._context = float(decode_tokens.sum() / all_outputs) if all_outputs else float(mix.prompt_tokens.mean())
        self._slots, self._slots_are = _slots(instance, self._context)
        self._others = (self._slots - 1) / self._slots
        self._price_curve()

    @property
    def limit_per_s(self) -> float:
        """Requests per second beyond which the queue grows without end."""
        return self._limit

    def at(self, rate_per_s: float) -> OperatingPoint:
        """The fixed point at an arrival rate; beyond the limit, the one at the limit."""
        bounded = min(rate_per_s, self._limit)
        y = self._served_per_iteration(bounded)
        curve = self._curve(np.array([y]))
        step_s, chunk_s, chunks = float(curve.step_s[0]), float(curve.chunk_step_s[0]), float(curve.chunks[0])
        limit = self._curve(np.array([self._ys[-1]]))
        token_s, piece_s = float(limit.token_work_s[0]), float(limit.chunk_work_s[0])
        per_request = self._chunks_of_each(limit.room[0])
        work = per_request * piece_s + self._outputs * token_s
        scale = 1 / self._limit / float(work.mean())
        service = self._chunks_of_each(curve.room[0]) * chunk_s + self._outputs * step_s
        mean_service = float(service.mean())
        return OperatingPoint(
            rate_per_s=rate_per_s,
            limit_per_s=self._limit,
            limited_by=self._limited_by,
            slots=self._slots,
            batch=float(curve.batch[0]),
            in_service=bounded * mean_service,
            step_s=step_s,
            chunk_step_s=chunk_s,
            chunks=chunks,
            service_s=mean_service,
            service_scv=scv(service),
            fading_s=_fading_s(service),
            alignment_s=float(curve.alignment_s[0]),
            prefill_wait_s=self._prefill_wait_s(bounded, curve) if rate_per_s < self._limit else math.inf,
            work_s=1 / self._limit,
            work_scv=scv(work),
            work_prefill_s=float(per_request.mean()) * piece_s * scale,
            work_token_s=token_s * scale,
        )

    def batch_step_s(self, decodes: float, context: float) -> float:
        """Time of an iteration of `decodes` decodes with `context` tokens each and no prompt."""
        return float(self._price(np.array([decodes]), np.array([decodes * context]), *np.zeros((3, 1)))[0])

    def prefill_alone_s(self, prompt_tokens: float) -> float:
        """Time to prefill one prompt with nothing else in the engine."""
        pieces = math.ceil(prompt_tokens / self._budget) if self._chunked else 1
        size = prompt_tokens / pieces
        before = np.arange(pieces) * size
        none = np.zeros(pieces)
        return float(self._price(none, none, np.ones(pieces), np.full(pieces, size), before).sum())

    @property
    def slots(self) -> float:
        """Requests that can be in service at once."""
        return self._slots

    @property
    def mean_outputs(self) -> float:
        """Output tokens after the first, in the mean."""
        return self._mean_outputs

    @property
    def context(self) -> float:
        """Context tokens of a decode in the mean, over all decodes."""
        return self._context

    def _price_curve(self) -> None:
        """Find the limit and the curve of rates up to it."""
        per_request = self._mean_outputs + (float(self._mix.prompt_tokens.mean()) if self._prefills else 0.0)
        by_budget = self._budget / per_request
        by_slots = self._slots / max(self._mean_outputs, 1.0)
        ys = np.linspace(0, min(by_budget, by_slots), _POINTS)
        for _ in range(2):  # the first look finds the limit, the second resolves the curve up to it
            curve = self._curve(ys)
            rates = ys / curve.step_s
            within = self._within(rates, curve)
            allowed = int(np.argmin(within)) if not within.all() else len(ys)
            last = int(np.argmax(rates[:allowed]))
            if allowed < len(ys) and last == allowed - 1:
                ys = np.linspace(0, self._refined(ys[last], ys[allowed]), _POINTS)
            else:
                ys = np.linspace(0, ys[last], _POINTS)
        curve = self._curve(ys)
        self._ys = ys
        self._rates = np.maximum.accumulate(ys / curve.step_s)
        self._limit = float(self._rates[-1])
        seated = self._limit * float(curve.service_s[-1]) > 0.99 * self._slots
        self._limited_by = self._slots_are if seated else "token budget"

    def _served_per_iteration(self, rate_per_s: float) -> float:
        """The y that keeps up an arrival rate."""
        ys, rates = self._ys, self._rates
        for _ in range(3):
            above = min(max(int(np.searchsorted(rates, rate_per_s)), 1), len(ys) - 1)
            ys = np.linspace(ys[above - 1], ys[above], 17)
            rates = np.maximum.accumulate(ys / self._curve(ys).step_s)
        return float(np.interp(rate_per_s, rates, ys))

    def _refined(self, low: float, high: float) -> float:
        """The largest y between two that the slots and the budget allow."""
        for _ in range(5):
            ys = np.linspace(low, high, 33)
            curve = self._curve(ys)
            within = (ys / curve.step_s * curve.service_s <= self._slots * (1 + 1e-9)) & (
                curve.prefill_load <= 1 + 1e-9
            )
            last = int(np.argmin(within)) - 1 if not within.all() else len(ys) - 1
            low, high = ys[max(last, 0)], ys[min(last + 1, len(ys) - 1)]
        return float(low)

    def _within(self, rates: np.ndarray, curve: "_Curve") -> np.ndarray:
        """Whether neither slots nor the token budget are exceeded."""
        slack = 1 + 1e-9
        return (rates * curve.service_s <= self._slots * slack) & (curve.prefill_load <= slack)

    def _curve(self, ys: np.ndarray) -> "_Curve":
        decodes = ys * self._mean_outputs
        seen = 1 + self._others * decodes
        room = np.maximum(self._budget - self._others * decodes, 1.0)
        chunks, chunk_tokens, chunk_before = self._chunk(room)
        x = ys * chunks * self._others
        share = -np.expm1(-x)
        per_busy = np.divide(x, share, out=np.ones_like(x), where=share > 0)
        others = self._others * decodes
        none = np.zeros_like(ys)
        decode_s, mixed_s, chunk_s, beside_s, full_s = self._price(
            np.concatenate([seen, seen, others, others, others]),
            np.concatenate([seen, seen, others, others, others]) * self._context,
            np.concatenate([none, per_busy, none + 1, none, none + 1]),
            np.concatenate([none, chunk_tokens, chunk_tokens, none, room]),
            np.concatenate([none, chunk_before, chunk_before, none, none]),
        ).reshape(5, -1)
        step_s = (1 - share) * decode_s + share * mixed_s
        square = (1 - share) * decode_s**2 + share * mixed_s**2
        rate = ys / step_s
        prompt_s = full_s / room * float(self._mix.prompt_tokens.mean())
        return _Curve(
            batch=seen,
            step_s=step_s,
            chunk_step_s=chunk_s,
            chunks=chunks,
            room=room,
            service_s=chunks * chunk_s + self._mean_outputs * step_s,
            alignment_s=square / (2 * step_s) + self._composed_ahead * step_s,
            full_step_s=full_s,
            prefill_load=rate * prompt_s * self._others * self._prefills,
            token_work_s=decode_s / seen,
            chunk_work_s=chunk_s - np.where(others > 0, beside_s, 0.0),
        )

    def _chunks_of_each(self, room: float) -> np.ndarray:
        prompt = self._mix.prompt_tokens
        if not self._prefills:
            return np.zeros_like(prompt)
        return np.ceil(prompt / room) if self._chunked else np.ones_like(prompt)

    def _chunk(self, room: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Chunks of a request, and tokens and tokens before of the chunk with the mean tokens and the mean pairs."""
        prompt, weight = self._prompts, self._weights
        if not self._prefills:
            return np.zeros_like(room), np.zeros_like(room), np.zeros_like(room)
        if self._chunked:
            chunks = np.ceil(prompt / room[:, None])
            rest = prompt - (chunks - 1) * room[:, None]
            pairs = room[:, None] ** 2 * (chunks - 1) * chunks / 2 + rest * prompt
        else:
            chunks = np.ones((len(room), len(prompt)))
            pairs = chunks * prompt**2
        count = chunks @ weight
        tokens = float(prompt @ weight) / count
        return count, tokens, np.maximum(pairs @ weight / count / tokens - tokens, 0.0)

    def _prefill_wait_s(self, rate_per_s: float, curve: "_Curve") -> float:
        """M/G/1 wait for the token budget: prompts are computed one after the other, `room` tokens an iteration."""
        if not self._prefills:
            return 0.0
        each_s = self._mix.prompt_tokens * float(curve.full_step_s[0] / curve.room[0])
        load = float(curve.prefill_load[0])
        square = float(np.mean(each_s**2))
        return self._others * rate_per_s * square / (2 * (1 - load)) if load < 1 else math.inf

    def _price(self, *batches: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            return np.asarray(_priced(as_arrays(self._latency), *map(jnp.asarray, batches)))


@dataclass(frozen=True, eq=False)
class _Curve:
    """Facts by y, `[Y]` each; `prefill_load` is the share of time that a prompt is being computed."""

    batch: np.ndarray
    step_s: np.ndarray
    chunk_step_s: np.ndarray
    chunks: np.ndarray
    room: np.ndarray
    service_s: np.ndarray
    alignment_s: np.ndarray
    full_step_s: np.ndarray
    prefill_load: np.ndarray
    token_work_s: np.ndarray
    chunk_work_s: np.ndarray


@jax.jit
def _priced(
    latency: AbstractLatency,
    decodes: jax.Array,
    context: jax.Array,
    chunks: jax.Array,
    tokens: jax.Array,
    before: jax.Array,
) -> jax.Array:
    """Seconds of iterations of `decodes` decodes (contexts summing to `context`) and `chunks` equal prompt chunks."""

    def one(decodes: jax.Array, context: jax.Array, chunks: jax.Array, tokens: jax.Array, before: jax.Array) -> Any:
        names = latency.terms
        of_chunk = {name: chunks * term for name, term in batch_terms.of_chunk(names, tokens, before).items()}
        terms = batch_terms.add(batch_terms.of_decodes(names, decodes, context), of_chunk)
        return latency.price(terms, {name: jnp.zeros_like(term) for name, term in terms.items()}).first_s

    return jax.vmap(one)(decodes, context, chunks, tokens, before)


def _fading_s(service_s: np.ndarray) -> float:
    """Where a thousandth of the mean of the service times is beyond."""
    longest = np.sort(service_s)
    beyond = np.cumsum(longest[::-1])[::-1] - longest * np.arange(len(longest), 0, -1)
    return float(longest[np.argmax(beyond <= 1e-3 * longest.sum())])


def _emitted(instance: Instance, mix: Mix) -> np.ndarray:
    emitted = instance.scheduler.emitted(mix.prompt_tokens.astype(np.int64), mix.output_tokens.astype(np.int64))
    return np.maximum(emitted, 1).astype(float)


def _slots(instance: Instance, context: float) -> tuple[float, Literal["slots", "kv_cache"]]:
    """Requests that fit at once, and whether seats or KV blocks say so."""
    seats = float(instance.scheduler.max_num_seqs)
    pool, blocks = instance.kv_cache, instance.num_blocks
    if blocks is None:
        return seats, "slots"
    held = math.floor(context / pool.block_size) + 1
    by_blocks = max(blocks * (1 - pool.watermark) / held, 1.0)
    return (seats, "slots") if seats <= by_blocks else (by_blocks, "kv_cache")
