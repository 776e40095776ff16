"""What a scheduler decides, and what it may look at: `plan`, a pure function of a `View`.

The engine asks a policy again and again while it composes one iteration. Each answer (`Plan`) grants tokens to running
requests, admits the head of the waiting queue or preempts somebody, and the last one closes the batch. A policy grants
to many requests at once where that is exact, and goes one by one only in a shortage.

Its text is about one lane, and must work unchanged for many: slot arrays `[S]` may be `[S, lanes]` and scalars
`[lanes]`, so reductions are along axis 0 (`count_of`, `total_of`, `any_of` ...) and all else is elementwise.
"""

import abc
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim._arrays import first_slot, select
from jaxsim.engine import kv


class Head(NamedTuple):
    """The head of the waiting queue. Scalars, int32 unless said."""

    there: jax.Array
    """bool: there is one."""
    prompt: jax.Array
    known: jax.Array
    """Its prompt and what it has emitted: the tokens to compute before it emits the next."""
    total: jax.Array
    """Its prompt and all it will emit."""


class View(NamedTuple):
    """What a policy sees of its instance. Per slot int32 `[S]` unless said; a slot that is not `running` may hold
    anything."""

    running: jax.Array
    """bool: it holds a request of the running list."""
    prompt: jax.Array
    request: jax.Array
    """Which: smaller is earlier in order of arrival."""
    rank: jax.Array
    """Place in the running list: smaller is earlier; all differ."""
    urgency: jax.Array
    """Place in order of (priority, arrival), equal for equals: larger goes first when somebody must be preempted."""
    known: jax.Array
    """Tokens to compute before it emits the next; what batches in flight will emit is counted."""
    total: jax.Array
    """Its prompt and all it will emit here: at `known == total` it waits for its last token in flight."""
    goal: jax.Array
    """Tokens that were known when it was admitted: below that it is still prefilling."""
    computed: jax.Array
    """Tokens computed, those of batches in flight included."""
    blocks: jax.Array
    """KV blocks it holds."""
    granted: jax.Array
    """Tokens granted in the iteration being composed; 0: none yet."""
    # scalars
    num_running: jax.Array
    num_waiting: jax.Array
    head: Head
    free_blocks: jax.Array
    num_blocks: jax.Array
    watermark_blocks: jax.Array
    preempted: jax.Array
    """bool: somebody was preempted in this iteration."""
    next_rank: jax.Array
    """Larger than every rank; a policy may give it to one request that moves to the end of the list."""
    memory: jax.Array
    """What the policy remembers of this instance, float64 `[memory]`."""
    block_size: int

    @property
    def tokens(self) -> jax.Array:
        """Tokens granted so far in the iteration."""
        return total_of(self.granted)

    @property
    def prefilling(self) -> jax.Array:
        """bool `[S]`: running requests whose prompt is not computed yet."""
        return self.running & (self.computed < self.goal)

    def blocks_of(self, tokens: jax.Array) -> jax.Array:
        """Blocks that hold so many tokens."""
        return kv.ceil_div(tokens, self.block_size)


class Plan(NamedTuple):
    """One answer of a policy."""

    grant: jax.Array
    """Tokens granted to each slot, int32 `[S]`; 0 to most."""
    blocks: jax.Array
    """Blocks that each slot which is granted tokens holds from then on, int32 `[S]`."""
    admit: jax.Array
    """Tokens for the head of the queue, after those grants; 0 does not admit it."""
    admit_blocks: jax.Array
    """Blocks it holds from then on."""
    victim: jax.Array
    """Slot of the request to preempt; S: none. A plan preempts, or grants and admits."""
    closes: jax.Array
    """bool: the batch is complete."""
    rank: jax.Array
    """Places in the running list, int32 `[S]`."""
    memory: jax.Array
    """What to remember; of a plan that closes an empty batch, too."""
    aborts: jax.Array | bool = False
    """bool: the victim is not queued again, but given up."""


class Limit(NamedTuple):
    """The most tokens of something, and the parameter that says so."""

    tokens: int
    because: str


def first_of(there: jax.Array, key: jax.Array) -> jax.Array:
    """bool `[S]`: the slot with the smallest key among those that are `there`, of which all keys differ; none if none
    is."""
    none = jnp.iinfo(key.dtype).max
    return there & (key == jnp.min(select(there, key, none), axis=0))


def last_of(there: jax.Array, key: jax.Array) -> jax.Array:
    """bool `[S]`: the slot with the largest key among those that are `there`."""
    none = jnp.iinfo(key.dtype).min
    return there & (key == jnp.max(select(there, key, none), axis=0))


def slot_of(one: jax.Array) -> jax.Array:
    """The slot of a mask with at most one, S if it has none."""
    return first_slot(one)


def at(one: jax.Array, values: jax.Array) -> jax.Array:
    """The value at the slot of a mask with at most one; 0 if it has none."""
    return jnp.sum(select(one, values, 0), axis=0, dtype=values.dtype)


def count_of(there: jax.Array) -> jax.Array:
    """Slots that are `there`, int32."""
    return jnp.sum(there, axis=0, dtype=jnp.int32)


def total_of(values: jax.Array) -> jax.Array:
    """Sum of a slot array, int32."""
    return jnp.sum(values, axis=0, dtype=jnp.int32)


def any_of(there: jax.Array) -> jax.Array:
    """bool: some slot is `there`."""
    return jnp.any(there, axis=0)


class AbstractPolicy(abc.ABC):
    """One scheduler. Its numbers are leaves, its switches are structure."""

    memory: ClassVar[tuple[float, ...]] = ()
    """What it remembers of an instance at first."""
    keeps_finished: ClassVar[bool] = False
    """Whether requests that have finished stay in the batch, as padding, until all have."""
    reserves: ClassVar[bool] = False
    """Whether a request holds all the blocks it will ever need from its admission on."""
    spares_block: ClassVar[bool] = False
    """Whether every decode needs a free block, also when it takes none."""
    requeues_last: ClassVar[bool] = False
    """Whether preempted requests go to the tail of the queue instead of its front."""
    gives_up: ClassVar[bool] = False
    """Whether some plans give a request up."""
    kind: str
    """Its name in a scenario."""
    queue_order: str

    @property
    def max_num_seqs(self) -> int:
        """The most requests running at once: a field of most policies, without limit by default."""
        return 2**30

    @property
    def batches_in_flight(self) -> int:
        """2 if the next batch is composed while one runs, else 1. Structure."""
        return 1

    @property
    def order(self) -> str:
        """The order of its waiting queue. Structure."""
        return self.queue_order

    @abc.abstractmethod
    def plan(self, view: View) -> Plan:
        """The next step of composing the iteration."""

    def is_decode(self, view: View) -> jax.Array:
        """bool `[S]`: of the requests that are granted tokens, those that count as decodes for the latency model."""
        return view.computed >= view.goal

    def stretch_limit(self, view: View) -> jax.Array:
        """The most iterations, int32, for which the batch that was just composed is composed again, as long as no
        request finishes, completes its prompt, lacks a block or arrives."""
        return jnp.int32(2**30)

    def repeated(self, memory: jax.Array, times: jax.Array) -> jax.Array:
        """The memory once the batch composed last was composed `times` (int32) more."""
        return memory

    def landing_blocks(self, known: jax.Array, total: jax.Array, block_size: jax.Array) -> jax.Array:
        """Blocks that a request takes whose KV cache of `known - 1` tokens is transferred to the instance, int32."""
        return kv.ceil_div(known, block_size)

    def most_seqs(self, num_blocks: int | None, block_size: int) -> int:
        """The most requests that can run at once."""
        return self.max_num_seqs

    def watermark_blocks(self, num_blocks: int, watermark: float) -> int:
        """Blocks that must stay free after an admission."""
        return int(watermark * num_blocks)

    @property
    def most_tokens(self) -> int:
        """Tokens of prompt and outputs at which a request stops."""
        return 2**30

    def emitted(self, prompt_tokens: np.ndarray, output_tokens: np.ndarray) -> np.ndarray:
        """Tokens each request emits before it stops; at most `output_tokens`."""
        return np.minimum(output_tokens, self.most_tokens - prompt_tokens)

    def longest_prompt(self) -> Limit | None:
        """The longest prompt that can ever be served, or None."""
        return None

    def least_blocks(
        self, prompt_tokens: np.ndarray, output_tokens: np.ndarray, block_size: int, watermark_blocks: int
    ) -> np.ndarray:
        """Blocks a pool must have to serve a request, int64: those of its last iteration, and those that its admission
        asks for. The last token is never fed."""
        tokens = prompt_tokens.astype(np.int64) + self.emitted(prompt_tokens, output_tokens) - 1
        admission = -(-prompt_tokens.astype(np.int64) // block_size) + watermark_blocks
        return np.maximum(-(-tokens // block_size), admission)
