"""What else was going on at a request's instance while it was there, from the times of all requests."""

import functools

import numpy as np

from jaxsim.metrics.request_table import RequestTable
from jaxsim.metrics.stays import stays

LONG_SHARE = 0.9
"""A prompt (or a context, or a crowd) is long if it is longer than that of this share of all requests."""


class Neighbours:
    """Facts about every request of a table, each `[R, N]`; requests that were never routed see nothing.

    Its instance is where it was prefilled. Where requests are handed over, that is done with one at its first token.

    Args:
        table: all requests of some seeds, warm-up included.
    """

    def __init__(self, table: RequestTable) -> None:
        self._table = table
        shape = table.arrival_s.shape
        times = (table.arrival_s, table.first_scheduled_s, table.first_token_s, table.finish_s)
        self._end = 1 + max((float(np.nanmax(time)) for time in times if not np.isnan(time).all()), default=0.0)
        self._end_s = stays(table)[0].end_s
        instances = int(table.instance.max(initial=0)) + 2
        self._group = (np.arange(shape[0])[:, None] * instances + table.instance + 1).ravel()

    @functools.cached_property
    def waiting(self) -> np.ndarray:
        """Requests in the queue of its instance when it arrived."""
        table = self._table
        others_begun = self._up_to(table.first_scheduled_s, table.arrival_s) - (table.queue_s <= 0)
        return (self._before(table.arrival_s, table.arrival_s) - others_begun).clip(0)

    @functools.cached_property
    def running(self) -> np.ndarray:
        """Requests that its instance had begun and not finished when it arrived."""
        begun = self._before(self._table.first_scheduled_s, self._table.arrival_s)
        return (begun - self._up_to(self._end_s, self._table.arrival_s)).clip(0)

    @functools.cached_property
    def long_prompt(self) -> np.ndarray:
        """Whether its prompt is longer than those of 90 % of all requests."""
        prompts = self._table.prompt_tokens
        return prompts > np.quantile(prompts, LONG_SHARE)

    @functools.cached_property
    def long_prompts_beside(self) -> np.ndarray:
        """Long prompts of others that its instance worked on between its arrival and its first token."""
        long = self.long_prompt.ravel()
        begun = self._before(self._table.first_scheduled_s, self._table.first_token_s, long)
        done = self._up_to(self._table.first_token_s, self._table.arrival_s, long)
        return (begun - done - self.long_prompt).clip(0)

    @functools.cached_property
    def prompt_tokens_beside(self) -> np.ndarray:
        """Tokens of prompts that its instance finished prefilling while it decoded there."""
        weights = self._table.prompt_tokens
        until = self._up_to(self._table.first_token_s, self._end_s, weights=weights)
        return (until - self._up_to(self._table.first_token_s, self._table.first_token_s, weights=weights)).clip(0)

    def _before(self, times: np.ndarray, when: np.ndarray, among: np.ndarray | None = None) -> np.ndarray:
        """How many of `times` at the same instance are before `when`, plus a number that depends on the instance."""
        return np.searchsorted(self._sorted(times, among), self._keys(when), side="left").reshape(when.shape)

    def _up_to(
        self,
        times: np.ndarray,
        when: np.ndarray,
        among: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> np.ndarray:
        """As `_before`, those at `when` included; or the sum of their weights."""
        keys = self._keys(when)
        if weights is None:
            return np.searchsorted(self._sorted(times, among), keys, side="right").reshape(when.shape)
        order = np.argsort(self._keys(times), kind="stable")
        sums = np.concatenate([[0], np.cumsum(weights.ravel()[order], dtype=np.int64)])
        return sums[np.searchsorted(self._keys(times)[order], keys, side="right")].reshape(when.shape)

    def _sorted(self, times: np.ndarray, among: np.ndarray | None) -> np.ndarray:
        keys = self._keys(times)
        return np.sort(keys if among is None else keys[among])

    def _keys(self, times: np.ndarray) -> np.ndarray:
        """Times that sort by instance first; what never happened is after everything else there."""
        return self._group * self._end + np.nan_to_num(times.ravel(), nan=np.nextafter(self._end, 0))
