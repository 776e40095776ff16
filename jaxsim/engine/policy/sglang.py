"""SGLang: prefills alone and first, one prompt in pieces at a time, room kept by a ratio (release 0.5.23)."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim._arrays import select
from jaxsim._component import check, check_positive, component
from jaxsim.engine.policy.base import AbstractPolicy, Plan, View, any_of, at, last_of, slot_of, total_of
from jaxsim.engine.policy.orders import QueueOrder

LONGEST_FORESEEN = 4096
"""Output tokens of one request that room is kept for."""

RETRACT_DECODE_STEPS = 20
"""Tokens that each request that is kept is expected to emit before the next shortage."""


class _Memory(NamedTuple):
    """What it remembers of an instance."""

    base: jax.Array
    """The ratio when it was last set; negative: at first."""
    decodes: jax.Array
    """Decode iterations since then."""
    prefills: jax.Array
    """Phase of the iteration being composed: 0: it begins; 1: a prefill batch is composed."""
    room: jax.Array
    """Tokens of room when it began; and what the batch has taken, in tokens: of room, of the chunk, of the prompts."""
    taken: jax.Array
    chunk: jax.Array
    prompts: jax.Array
    decoded: jax.Array
    """1: the batch composed last is one of decodes."""


def _stacked(memory: _Memory) -> jax.Array:
    shape = jnp.shape(memory.taken)
    return jnp.stack([jnp.broadcast_to(jnp.asarray(number, jnp.float64), shape) for number in memory])


@component
class Sglang(AbstractPolicy):
    """Prefill batches while any can be formed, else all running requests decode.

    A request is admitted when the room left, after what running requests are expected to need, takes its prompt and
    its outputs. They are expected to need a share of the outputs they may still emit: a ratio that decays with every
    decode iteration and is set anew when memory runs out. Then those that have emitted least are retracted, to the tail
    of the queue (by recomputation). At most one prompt is computed in pieces at a time.

    Attributes:
        chunked_prefill_size: tokens of one prefill batch, and of a piece of a prompt; null: prompts are not split.
        max_prefill_tokens: most prompt tokens of one prefill batch, a single longer prompt apart.
        max_running_requests: most requests running at once.
        conservativeness: factor of the ratio at first, 0.7; larger keeps more room.
        ignore_eos: requests emit all tokens they may (the ratio is 1), as in benchmarks.
        queue_order: order of the waiting queue.
    """

    memory = (-1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    requeues_last = True
    gives_up = True

    kind: Literal["sglang"] = "sglang"
    chunked_prefill_size: int | None = 8192
    max_prefill_tokens: int = 16384
    max_running_requests: int = 256
    conservativeness: float = 1.0
    ignore_eos: bool = False
    queue_order: QueueOrder = "fcfs"

    def __post_init__(self) -> None:
        for field in ("chunked_prefill_size", "max_prefill_tokens", "max_running_requests"):
            check(self, field, lambda value: value >= 1, "at least 1")
        check_positive(self, "conservativeness")

    @property
    def max_num_seqs(self) -> int:
        """The field's name for `max_running_requests`."""
        return self.max_running_requests

    def plan(self, view: View) -> Plan:
        """Rules 1 to 4: one prompt, or one piece of one, at a time; else all decodes, or one retraction."""
        m = _Memory(*view.memory)
        begins = m.prefills == 0
        decoding = view.running & ~view.prefilling & (view.granted == 0)
        bs = view.block_size
        most = jnp.inf if self.chunked_prefill_size is None else jnp.asarray(self.chunked_prefill_size, jnp.float64)
        limit = jnp.asarray(self.max_prefill_tokens, jnp.float64)

        foreseen = total_of(select(decoding, jnp.minimum(view.total - view.known, LONGEST_FORESEEN), 0))
        kept = self._ratio(m) * foreseen.astype(jnp.float64)
        room = select(begins, view.free_blocks.astype(jnp.float64) * bs - kept, m.room)
        taken = select(begins, 0.0, m.taken)
        chunk = select(begins, most, m.chunk)
        prompts = select(begins, limit, m.prompts)

        # the prompt that is computed in pieces
        piece = view.prefilling & (view.granted == 0) & begins & ~view.preempted
        rest = at(piece, view.goal - view.computed)
        there = any_of(piece)
        most_now = jnp.trunc(jnp.minimum(chunk, room))
        holds = (view.free_blocks + at(piece, view.blocks)) * bs - at(piece, view.computed)
        size = jnp.minimum(select(most_now > 0, most_now, chunk), jnp.minimum(rest, holds).astype(jnp.float64))
        first = select(there, size, 0.0).astype(jnp.int32)
        waits = there & (first == 0)
        rest_left = jnp.minimum(at(piece, view.total - view.goal), LONGEST_FORESEEN)
        taken, chunk, prompts = self._charge(bs, taken, chunk, prompts, first, (first == rest) & there, rest_left)
        blocks = jnp.maximum(view.blocks, view.blocks_of(view.computed + select(piece, first, 1)))

        # the head of the queue
        head = view.head
        outputs = jnp.minimum(head.total - head.known, LONGEST_FORESEEN)
        whole = (view.blocks_of(head.known) * bs).astype(jnp.float64)
        in_batch = any_of(view.granted > 0) | (first > 0)
        tokens = select(
            whole <= chunk, head.known.astype(jnp.float64), jnp.floor(jnp.minimum(chunk, 2.0**30) / bs) * bs
        )
        tokens = tokens.astype(jnp.int32)
        enough = (head.known + outputs + bs).astype(jnp.float64) + taken <= room
        fits = enough & (tokens > 0)
        if self.chunked_prefill_size is None:
            fits = fits & ~(in_batch & (whole >= prompts))
        admits = head.there & ~waits & ~view.preempted & fits & (chunk > 0) & (prompts > 0)
        admits = admits & (view.num_running < self.max_running_requests)
        admit = select(admits, tokens, 0)
        taken, chunk, prompts = self._charge(bs, taken, chunk, prompts, admit, admits & (tokens == head.known), outputs)
        prefills = in_batch | admits

        # decodes
        needing = select(decoding, blocks - view.blocks, 0)
        short = (total_of(needing) > view.free_blocks) & ~prefills
        emitted = view.known - view.prompt
        victim = self._least_useful(view, decoding, emitted)
        alone = total_of(decoding) == 1
        decodes = decoding & ~prefills & ~short
        count = total_of(decodes)
        decoded = total_of(select(decodes, emitted, 0)) + RETRACT_DECODE_STEPS * count
        longest = total_of(select(decodes, view.total - view.prompt, 0))
        anew = jnp.minimum(1.0, decoded.astype(jnp.float64) / (longest + 1).astype(jnp.float64))
        start, _ = self._limits()
        idle = ~prefills & ~short & (count == 0) & ~view.preempted
        closes = ~short & ~admits
        base = select(~prefills & ~short & view.preempted, anew, select(idle, start, m.base))
        calm = select(prefills, m.decodes, select(view.preempted | idle, 0.0, m.decodes + (count > 0)))
        memory = _Memory(
            base=select(closes, base, m.base),
            decodes=select(closes, calm, m.decodes),
            prefills=select(closes, 0.0, select(prefills, 1.0, m.prefills)),
            room=room,
            taken=taken,
            chunk=jnp.minimum(chunk, 2.0**40),
            prompts=prompts,
            decoded=select(prefills, 0.0, 1.0),
        )
        ends_prompt = piece & (first > 0) & (first == rest)
        return Plan(
            grant=select(piece, first, 0) + decodes.astype(jnp.int32),
            blocks=blocks,
            admit=admit,
            admit_blocks=view.blocks_of(admit),
            victim=select(short, slot_of(victim), view.running.shape[0]),
            closes=closes,
            rank=select(ends_prompt, view.next_rank, view.rank),
            memory=_stacked(memory),
            aborts=short & alone,
        )

    def _charge(
        self,
        block_size: int,
        taken: jax.Array,
        chunk: jax.Array,
        prompts: jax.Array,
        tokens: jax.Array,
        completes: jax.Array,
        outputs: jax.Array,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """What is left once a batch has `tokens` more of a prompt; 0 tokens change nothing."""
        whole = (-(-tokens // block_size) * block_size).astype(jnp.float64)
        cost = whole + block_size + select(completes, outputs, 0)
        return taken + select(tokens > 0, cost, 0.0), chunk - whole, prompts - whole

    def _limits(self) -> tuple[jax.Array, jax.Array]:
        """The ratio at first, and at least."""
        start = jnp.minimum(0.7 * jnp.asarray(self.conservativeness, jnp.float64), 1.0)
        return start, start * 0.14

    def _ratio(self, m: _Memory) -> jax.Array:
        """Rule 3: the share of their outputs still to come that running requests are expected to need."""
        if self.ignore_eos:
            return jnp.float64(1.0)
        start, least = self._limits()
        base = select(m.base < 0, start, m.base)
        decayed = jnp.maximum(base - (start - least) / 600 * m.decodes, least)
        return select(m.decodes == 0, base, decayed)

    def _least_useful(self, view: View, decoding: jax.Array, emitted: jax.Array) -> jax.Array:
        """bool `[S]`. Rule 4: the fewest tokens emitted; of equals the longest prompt, then the last of the list."""
        fewest = decoding & (emitted == jnp.min(select(decoding, emitted, 2**31 - 1), axis=0))
        longest = fewest & (view.prompt == jnp.max(select(fewest, view.prompt, -1), axis=0))
        return last_of(longest, view.rank)

    def stretch_limit(self, view: View) -> jax.Array:
        """While somebody waits, the decay of the ratio may let it in, unless there would be no room for it without a
        ratio, or no seat. A prompt goes on in whole pieces as long as there is room for them."""
        m = _Memory(*view.memory)
        many, bs = jnp.int32(2**30), view.block_size
        head = view.head
        needs = head.known + jnp.minimum(head.total - head.known, LONGEST_FORESEEN) + bs
        hopeless = (needs > view.free_blocks * bs) | (view.num_running >= self.max_running_requests)
        pieces_wait = any_of(view.prefilling)
        decodes = select((head.there & ~hopeless) | pieces_wait, 1, many)
        if self.chunked_prefill_size is None:
            return select(m.decoded > 0, decodes, 1)
        size = jnp.asarray(self.chunked_prefill_size, jnp.int32)
        is_piece = total_of(view.granted) == size
        rooms = jnp.floor((m.room - size) / (size + bs))
        pieces = select(is_piece & (rooms > 0), 1 + jnp.minimum(rooms, 2.0**29).astype(jnp.int32), 1)
        return select(m.decoded > 0, decodes, pieces)

    def repeated(self, memory: jax.Array, times: jax.Array) -> jax.Array:
        """Every decode iteration counts."""
        m = _Memory(*memory)
        return _stacked(m._replace(decodes=m.decodes + select(m.decoded > 0, times, 0).astype(jnp.float64)))

    def least_blocks(
        self, prompt_tokens: np.ndarray, output_tokens: np.ndarray, block_size: int, watermark_blocks: int
    ) -> np.ndarray:
        """Those of its last iteration, and room for prompt, foreseen outputs and a block when it is admitted."""
        foreseen = np.minimum(output_tokens, LONGEST_FORESEEN).astype(np.int64)
        admission = -(-(prompt_tokens + foreseen + block_size) // block_size)
        return np.maximum(super().least_blocks(prompt_tokens, output_tokens, block_size, 0), admission)
