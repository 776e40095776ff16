"""Measured times of iterations, as what latency models are fitted to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from jaxsim.latency.terms import NAMES

Terms = Mapping[str, np.ndarray]
"""Batch terms by name (see `jaxsim.latency.terms`), arrays of one shape."""

Seconds = Callable[[Terms], np.ndarray]
"""A clock: seconds of iterations, in the shape of their terms."""


@dataclass(frozen=True, eq=False)
class Samples:
    """M measured times, each the sum of some iterations: of one for a step sample, of many for a request in a log.

    The iterations of a sample are of P kinds, all of a kind alike.

    Attributes:
        source: where they come from, for messages.
        time_s: float64 `[M]`, seconds, greater than 0.
        count: float64 `[M, P]`, iterations of each kind.
        terms: batch terms of an iteration of each kind, float64 `[M, P]` each.
        of: what a sample is.
        facts: what the file says of all samples, such as the model and the hardware.
        sha256: checksum of the file.
    """

    source: str
    time_s: np.ndarray
    count: np.ndarray
    terms: Terms
    of: Literal["steps", "requests"] = "steps"
    facts: Mapping[str, str] = field(default_factory=dict)
    sha256: str = ""

    def __len__(self) -> int:
        return len(self.time_s)

    def __getitem__(self, rows: np.ndarray) -> "Samples":
        """Some of them."""
        terms = {name: term[rows] for name, term in self.terms.items()}
        return replace(self, time_s=self.time_s[rows], count=self.count[rows], terms=terms)

    def predicted_s(self, seconds: Seconds) -> np.ndarray:
        """What a clock makes of them, float64 `[M]`."""
        return (self.count * seconds(self.terms)).sum(axis=1)

    def errors(self, seconds: Seconds) -> np.ndarray:
        """Predicted over measured, minus 1, `[M]`."""
        return self.predicted_s(seconds) / self.time_s - 1

    @property
    def regions(self) -> np.ndarray:
        """Text `[M]`: what the iterations of a sample hold, and in which half of such it is by its time."""
        if self.of == "requests":
            kinds = np.full(len(self), "requests")
        else:
            prefill, decode = self.terms["prefill_tokens"][:, 0] > 0, self.terms["decode_seqs"][:, 0] > 0
            kinds = np.select([prefill & decode, prefill], ["mixed", "prefill"], "decode")
        found = np.empty(len(self), dtype="<U32")
        for kind in np.unique(kinds):
            here = kinds == kind
            large = self.time_s > np.median(self.time_s[here])
            found[here] = np.where(large, f"{kind}, large", f"{kind}, small")[here]
        return found


def terms_of(**given: np.ndarray) -> dict[str, np.ndarray]:
    """All batch terms `[M, 1]` of M iterations, from some of them `[M]`; the others are zero, new tokens are summed."""
    size = len(next(iter(given.values())))
    terms = {name: np.asarray(given.get(name, np.zeros(size)), np.float64)[:, None] for name in NAMES}
    if "new_tokens" not in given:
        terms["new_tokens"] = terms["prefill_tokens"] + terms["decode_seqs"]
    return terms
