"""Waiting queues of a lane: all queues of one order share their storage.

`Fifo` is a linked list through the requests: first come first served, with preempted requests at the front. `Ranked`
keeps a bit for every request in order of a rank that never changes, with summaries, 32 ways a level: its head is found
in one look a level. Both cost the same however many requests wait.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int32

from jaxsim._arrays import first_there, put, select, take

_WAYS = 32


class Fifo(eqx.Module):
    """First come, first served. Element N of `after`, and Q of `head` and `tail`, are spare."""

    head: Int32[Array, " Q+1"]
    tail: Int32[Array, " Q+1"]
    after: Int32[Array, " N+1"]
    """The request behind; N at the tail."""

    def first(self, queue: jax.Array) -> jax.Array:
        """The request at the head, N if there is none."""
        return take(self.head, queue)

    def push(self, queue: jax.Array, request: jax.Array, in_front: bool | jax.Array = False) -> "Fifo":
        """Queue a request; N: nobody."""
        none, spare = self.after.shape[0] - 1, self.head.shape[0] - 1
        queue = select(request < none, queue, spare)
        head, tail = take(self.head, queue), take(self.tail, queue)
        empty = head == none
        behind = select(empty | in_front, none, tail)
        after = put(self.after, behind, request)
        after = put(after, request, select(in_front, head, none))
        return Fifo(
            put(self.head, queue, select(empty | in_front, request, head)),
            put(self.tail, queue, select(in_front & ~empty, tail, request)),
            after,
        )

    def pop(self, queue: jax.Array, there: jax.Array) -> "Fifo":
        """Take out the head."""
        none = self.after.shape[0] - 1
        queue = select(there, queue, self.head.shape[0] - 1)
        first = take(self.head, queue)
        head = put(self.head, queue, take(self.after, first))
        return Fifo(head, self.tail, put(self.after, select(there, first, none), jnp.int32(none)))

    def remove(self, queue: jax.Array, request: jax.Array) -> "Fifo":
        """Take out a request (N: nobody) wherever it is: a pass over all requests."""
        none = self.after.shape[0] - 1
        there = request < none
        is_head = there & (take(self.head, queue) == request)
        behind = take(self.after, request)
        before = first_there(self.after[:-1] == request)
        inside = there & ~is_head
        spare = self.head.shape[0] - 1
        after = put(self.after, select(inside, before, none), behind)
        after = put(after, request, jnp.int32(none))
        was_tail = inside & (behind == none)
        return Fifo(
            put(self.head, select(is_head, queue, spare), behind),
            put(self.tail, select(was_tail, queue, spare), before),
            after,
        )


class Ranked(eqx.Module):
    """By a rank that a request keeps. The last word of each level is spare."""

    levels: tuple[Int32[Array, " Q*words+1"], ...]
    """Bits of requests in order of rank, then of words that are not 0, up to one word a queue."""
    rank: Int32[Array, " N+1"]
    by_rank: Int32[Array, " N+1"]
    queues: int = eqx.field(static=True)

    def first(self, queue: jax.Array) -> jax.Array:
        """The request at the head, N if there is none."""
        word = jnp.int32(0)
        empty = take(self.levels[-1], queue) == 0
        for level in reversed(self.levels):
            bits = take(level, queue * self._words(level) + word)
            word = word * _WAYS + _lowest_bit(bits)
        none = self.rank.shape[0] - 1
        return take(self.by_rank, select(empty, none, jnp.minimum(word, none)))

    def push(self, queue: jax.Array, request: jax.Array, in_front: bool | jax.Array = False) -> "Ranked":
        """Queue a request by its rank; N: nobody."""
        there = request < self.rank.shape[0] - 1
        place, levels = take(self.rank, request), []
        for level in self.levels:
            word = lax.div(place, jnp.int32(_WAYS))
            index = select(there, queue * self._words(level) + word, level.shape[0] - 1)
            levels.append(put(level, index, take(level, index) | _bit(place - word * _WAYS)))
            place = word
        return Ranked(tuple(levels), self.rank, self.by_rank, self.queues)

    def pop(self, queue: jax.Array, there: jax.Array) -> "Ranked":
        """Take out the head."""
        place, levels = take(self.rank, self.first(queue)), []
        for level in self.levels:
            word = lax.div(place, jnp.int32(_WAYS))
            index = select(there, queue * self._words(level) + word, level.shape[0] - 1)
            left = take(level, index) & ~_bit(place - word * _WAYS)
            levels.append(put(level, index, left))
            there = there & (left == 0)
            place = word
        return Ranked(tuple(levels), self.rank, self.by_rank, self.queues)

    def _words(self, level: jax.Array) -> int:
        return (level.shape[0] - 1) // self.queues


def _bit(place: jax.Array) -> jax.Array:
    return jnp.left_shift(jnp.int32(1), place)


def _lowest_bit(bits: jax.Array) -> jax.Array:
    return lax.population_count((bits & -bits) - 1)


def empty(order: str, queues: int, num_requests: int, rank: Any) -> Fifo | Ranked:
    """Empty queues.

    Args:
        order: `fcfs`, or any other: by rank.
        queues: how many.
        num_requests: N.
        rank: int32 `[N+1]`, a permutation that leaves N where it is; None for `fcfs`.
    """
    if order == "fcfs":
        nobody = jnp.full(queues + 1, num_requests, jnp.int32)
        return Fifo(nobody, nobody, jnp.full(num_requests + 1, num_requests, jnp.int32))
    levels: list[jax.Array] = []
    words = num_requests
    while not levels or words > 1:
        words = -(-words // _WAYS)
        levels.append(jnp.zeros(queues * words + 1, jnp.int32))
    by_rank = jnp.zeros(num_requests + 1, jnp.int32).at[rank].set(np.arange(num_requests + 1, dtype=np.int32))
    return Ranked(tuple(levels), rank, by_rank, queues)
