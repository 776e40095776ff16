"""What an engine did, batch by batch, in one seed: the table behind timelines and time series."""

import dataclasses
from dataclasses import dataclass

import numpy as np

SCHEMA_VERSION = 1


@dataclass(frozen=True, eq=False)
class Events:
    """One row for each batch, or for each stretch of batches in which nothing but contexts changes; all arrays `[E]`.

    Rows of one instance are in order and do not overlap; between them the instance had no batch. In a stretch, sums
    over its iterations are given for the whole of it and states as they were in its first iteration.

    Attributes:
        instance: int32, number of the instance.
        start_s: float64, when the first iteration began, seconds from the start of the seed.
        end_s: float64, when the last iteration ended.
        iterations: int32, how many there were, 1 or greater.
        new_tokens: int64, tokens computed, prompts and decodes, in all iterations.
        prefill_tokens: int64, of these, tokens of prompts (also of prompts computed again after a preemption).
        decodes: int32, requests that decoded one token in each iteration.
        context_tokens: int64, context of all decoding requests together, in tokens, at the first iteration.
        running: int32, requests admitted and not finished.
        waiting: int32, requests in the queue of the instance.
        kv_blocks: int32, KV blocks in use.
    """

    instance: np.ndarray
    start_s: np.ndarray
    end_s: np.ndarray
    iterations: np.ndarray
    new_tokens: np.ndarray
    prefill_tokens: np.ndarray
    decodes: np.ndarray
    context_tokens: np.ndarray
    running: np.ndarray
    waiting: np.ndarray
    kv_blocks: np.ndarray

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            column = np.asarray(getattr(self, field.name))
            object.__setattr__(self, field.name, column)
            if column.shape != np.shape(self.instance) or column.ndim != 1:
                raise ValueError(f"{field.name} must have one value for each row, not shape {column.shape}")
        if np.any(~(self.end_s >= self.start_s)):
            raise ValueError("end_s must not be before start_s")
        if np.any(self.iterations < 1):
            raise ValueError("iterations must be 1 or greater")

    def __len__(self) -> int:
        return len(self.instance)

    def of(self, instance: int) -> "Events":
        """The rows of one instance."""
        here = self.instance == instance
        return Events(**{field.name: getattr(self, field.name)[here] for field in dataclasses.fields(self)})
