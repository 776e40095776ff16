"""Statistics of recorded requests: how they arrive, how long they are, what they share."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WINDOWS_S = (0.1, 1.0, 10.0, 60.0, 600.0, 3600.0)
"""Windows that arrivals are counted in."""

_FEWEST_WINDOWS = 20
_FEWEST_PER_WINDOW = 2.0


def dispersion(arrival_s: np.ndarray, window_s: float) -> float:
    """Index of dispersion of the arrivals per window: variance / mean; 1 for Poisson arrivals in any window.

    Cox & Lewis (1966), The Statistical Analysis of Series of Events, ch. 4.5. Over windows from the first arrival on,
    as many as fit.

    Args:
        arrival_s: float64 `[N]`, not decreasing.
        window_s: seconds.
    """
    counts = counts_per_window(arrival_s, window_s)
    return float(np.var(counts, ddof=1) / np.mean(counts)) if len(counts) > 1 and counts.any() else np.nan


def counts_per_window(arrival_s: np.ndarray, window_s: float) -> np.ndarray:
    """Arrivals in each of the windows that fit between the first and the last arrival, int64 `[W]`."""
    windows = int((arrival_s[-1] - arrival_s[0]) / window_s)
    which = ((arrival_s - arrival_s[0]) / window_s).astype(np.int64)
    return np.bincount(which[which < windows], minlength=windows)


def telling(windows_s: Sequence[float], count: int, span_s: float) -> list[float]:
    """The windows that hold enough arrivals, and of which there are enough, to tell burstiness from noise."""
    return [
        window
        for window in windows_s
        if span_s > 0 and span_s / window >= _FEWEST_WINDOWS and count / span_s * window >= _FEWEST_PER_WINDOW
    ]


def ks_distance(sample: np.ndarray, other: np.ndarray) -> float:
    """Kolmogorov-Smirnov distance of two samples: the largest gap between their distribution functions, in [0, 1]."""
    sample, other = np.sort(sample), np.sort(other)
    values = np.concatenate([sample, other])
    at = [np.searchsorted(of, values, side="right") / len(of) for of in (sample, other)]
    return float(np.max(np.abs(at[0] - at[1])))


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's correlation, with equal values at their mean rank; 0 if one does not vary."""
    ranks = [_ranks(values) for values in (first, second)]
    deviations = [rank - rank.mean() for rank in ranks]
    scale = np.sqrt((deviations[0] ** 2).sum() * (deviations[1] ** 2).sum())
    return float(deviations[0] @ deviations[1] / scale) if scale > 0 else 0.0


def _ranks(values: np.ndarray) -> np.ndarray:
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[which]


@dataclass(frozen=True)
class PrefixSharing:
    """What prompts share with the prompts before them, if every block were kept.

    Attributes:
        shared_token_share: share of all prompt tokens in leading blocks that an earlier request had: the hit rate of a
            prefix cache without limit.
        sharing_request_share: share of requests whose first block an earlier request had.
        distinct_blocks: blocks that differ.
        block_tokens: tokens in a block.
    """

    shared_token_share: float
    sharing_request_share: float
    distinct_blocks: int
    block_tokens: int


def prefix_sharing(blocks: Sequence[Sequence[str]], prompt_tokens: np.ndarray, block_tokens: int) -> PrefixSharing:
    """Sharing of prefixes, in the order of the requests."""
    seen: set[str] = set()
    shared_tokens = sharing = 0
    for names, prompt in zip(blocks, prompt_tokens.tolist(), strict=True):
        shared = next((place for place, name in enumerate(names) if name not in seen), len(names))
        shared_tokens += min(shared * block_tokens, prompt)
        sharing += shared > 0
        seen.update(names)
    return PrefixSharing(shared_tokens / int(prompt_tokens.sum()), sharing / len(blocks), len(seen), block_tokens)
