"""Orders of a waiting queue.

`fcfs` is first come first served, and preempted requests go to the front. The others sort by a rank that a request
keeps, whatever happens to it: preempted requests go back by it. Ties go by arrival.
"""

from typing import Literal

import numpy as np

QueueOrder = Literal["fcfs", "priority", "shortest_prompt", "shortest_job", "longest_waiting"]
"""`shortest_job` knows output lengths in advance: a bound on what a scheduler can reach, not a scheduler.
`longest_waiting` goes by the time since the first arrival, so preempted requests come first."""


def static_rank(
    order: str, prompt_tokens: np.ndarray, output_tokens: np.ndarray, priority: np.ndarray, text_rank: np.ndarray
) -> np.ndarray:
    """Every request's rank in an order other than `fcfs`, int32 `[L, N]`, a permutation along N.

    Args:
        order: the order.
        prompt_tokens: int `[L, N]`, of requests in order of arrival, as the following.
        output_tokens: int `[L, N]`.
        priority: int `[L, N]`, smaller first.
        text_rank: int `[L, N]`, requests in order of (arrival, id as text): breaks ties of priority.
    """
    keys = {
        "priority": (text_rank, priority),
        "shortest_prompt": (prompt_tokens,),
        "shortest_job": (output_tokens,),
        "longest_waiting": (np.zeros_like(prompt_tokens),),
    }[order]
    place = np.lexsort(keys, axis=-1)
    rank = np.empty(place.shape, np.int32)
    np.put_along_axis(rank, place, np.arange(place.shape[-1], dtype=np.int32)[None], axis=-1)
    return rank
