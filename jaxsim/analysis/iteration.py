"""Where the time of one iteration goes: operator by operator, with what fits in memory beside it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from jaxsim.analysis.answer import Answer, Row, new_axes
from jaxsim.latency.roofline import Roofline
from jaxsim.operators.base import amount, seconds
from jaxsim.operators.efficiency import fitted_for
from jaxsim.specs import MemoryUse, memory_budget
from jaxsim.specs.memory import MemoryBudget

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Bound = Literal["compute", "memory", "link", "overhead"]


class OperatorTime(NamedTuple):
    """What one operator does in the iteration, on one device, all its calls together."""

    name: str
    calls: float
    flops: float
    bytes: float
    bound: Bound
    """What takes most of its time."""
    time_s: float
    dtype: str

    @property
    def intensity(self) -> float | None:
        """Operations per byte; None for what moves nothing."""
        return self.flops / self.bytes if self.bytes else None


class BatchSize(NamedTuple):
    """An iteration: one prompt chunk of `prefill_tokens` beside `decode_seqs` decodes of `context_tokens` each."""

    prefill_tokens: int
    decode_seqs: int
    context_tokens: int

    @property
    def terms(self) -> dict[str, float]:
        """Its batch terms (`jaxsim.latency.terms`)."""
        chunk = float(self.prefill_tokens)
        return {
            "decode_seqs": float(self.decode_seqs),
            "context_tokens": float(self.decode_seqs * self.context_tokens),
            "prefill_seqs": float(chunk > 0),
            "prefill_tokens": chunk,
            "prefill_pairs": chunk**2,
            "prefill_squares": chunk**2,
        }


@dataclass(frozen=True, eq=False)
class IterationAnswer(Answer):
    """The parts of one iteration.

    Attributes:
        clock: model, hardware and how they are joined.
        batch: what the iteration computes.
        operators: its parts, in the order they run.
        iteration_s: seconds of the iteration.
        ttft_s: seconds to the first token of a lone request with that prompt; None without a prompt.
        tpot_s: seconds per further token of a lone request, with the context of the decodes (or after the prompt).
        memory: bytes of one device, by use.
        block_size: tokens in a KV block.
        use: how much of the device may be used.
    """

    question: ClassVar[str] = "latency"

    clock: Roofline
    batch: BatchSize
    operators: tuple[OperatorTime, ...]
    iteration_s: float
    ttft_s: float | None
    tpot_s: float
    memory: MemoryBudget
    use: MemoryUse
    block_size: int
    warnings: tuple[str, ...] = field(default=())

    @property
    def num_blocks(self) -> int:
        """KV blocks that fit; 0 if the model does not."""
        return self.memory.num_blocks(self.block_size)

    @property
    def largest_batch(self) -> int | None:
        """Requests with the context of the decodes that fit at once; None without a context."""
        context = self.batch.context_tokens
        return self.num_blocks // -(-context // self.block_size) if context else None

    @property
    def sentences(self) -> Sequence[str]:
        memory, clock = self.memory, self.clock
        parts = [f"a prompt of {self.batch.prefill_tokens:,} tokens"] if self.batch.prefill_tokens else []
        if self.batch.decode_seqs:
            parts.append(f"{self.batch.decode_seqs:,} decodes at context {self.batch.context_tokens:,}")
        slowest = max(self.operators, key=lambda operator: operator.time_s)
        found = [
            f"One iteration with {' and '.join(parts)} takes {_time(self.iteration_s)}, "
            f"{slowest.time_s / self.iteration_s:.0%} of it {slowest.name}: {clock.spec.name} on {_devices(clock)}.",
            "A lone request: "
            + (f"TTFT {_time(self.ttft_s)}, " if self.ttft_s is not None else "")
            + f"TPOT {_time(self.tpot_s)}.",
            f"KV cache: {memory.kv_bytes_per_token:,.0f} bytes a token and device; {self.num_blocks:,} blocks of "
            f"{self.block_size} tokens fit"
            + (
                f", {self.largest_batch:,} requests of {self.batch.context_tokens:,} tokens"
                if self.largest_batch
                else ""
            )
            + ".",
            f"Memory of a device: weights {memory.weights / 1e9:.1f} GB, overheads {memory.overhead / 1e9:.1f} GB, "
            f"KV cache {max(memory.kv_cache, 0) / 1e9:.1f} GB of {memory.usable / 1e9:.1f} GB.",
        ]
        return found

    @property
    def facts(self) -> Mapping[str, Any]:
        clock = self.clock
        return {
            "model": clock.spec.name,
            "hardware": clock.device.name,
            "tensor_parallel": clock.tensor_parallel,
            "pipeline_parallel": clock.pipeline_parallel,
            "expert_parallel": clock.expert_parallel,
            "data_parallel": clock.data_parallel,
            **self.batch._asdict(),
            "iteration_s": self.iteration_s,
            "ttft_s": self.ttft_s,
            "tpot_s": self.tpot_s,
            "kv_bytes_per_token": self.memory.kv_bytes_per_token,
            "block_size": self.block_size,
            "num_blocks": self.num_blocks,
            "largest_batch": self.largest_batch,
            "memory_bytes": self.memory._asdict() | {"kv_cache": self.memory.kv_cache},
            "efficiency_fitted_on": fitted_for(clock.device.name),
        }

    @property
    def rows(self) -> Sequence[Row]:
        return [
            {
                "operator": operator.name,
                "calls": int(operator.calls),
                "gflop": operator.flops / 1e9,
                "gbyte": operator.bytes / 1e9,
                "flop_per_byte": operator.intensity,
                "bound": operator.bound,
                "time_s": operator.time_s,
                "time_share": operator.time_s / self.iteration_s,
            }
            for operator in self.operators
        ]

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The roofline: achieved FLOP/s of each operator over its FLOP per byte, below the peaks of the device."""
        from matplotlib.collections import PathCollection

        ax = new_axes(ax, 8.0, 5.0)
        device = self.clock.device
        drawn = [operator for operator in self.operators if operator.flops and operator.bytes]
        intensities = [operator.flops / operator.bytes for operator in drawn]
        low, high = min(intensities) / 4, max(intensities) * 4
        for dtype in sorted({operator.dtype for operator in drawn}):
            peak = device.flops_per_s(dtype)
            ridge = peak / device.memory_bytes_per_s
            ends = [low, min(max(ridge, low), high), high]
            roof = [min(peak, x * device.memory_bytes_per_s) for x in ends]
            ax.plot(ends, roof, color="0.35", linewidth=1.2)
            label = f"{peak / 1e12:,.0f} TFLOP/s {dtype}"
            ax.annotate(label, (high, roof[-1]), (0, 3), textcoords="offset points", ha="right", fontsize=8)
        for operator in sorted(drawn, key=lambda operator: -operator.time_s):
            share = operator.time_s / self.iteration_s
            ax.scatter(
                operator.flops / operator.bytes,
                operator.flops / operator.time_s,
                s=20 + 600 * share,
                alpha=0.8,
                linewidths=0,
                label=f"{operator.name}: {share:.1%}, {operator.bound}",
            )
        rest = sum(operator.time_s for operator in self.operators if operator not in drawn) / self.iteration_s
        legend = ax.legend(
            title=f"share of the time, what bounds it\n(without operations: {rest:.1%})",
            fontsize=8,
            title_fontsize=8,
            frameon=False,
            loc="lower right",
        )
        for handle in legend.legend_handles:
            assert isinstance(handle, PathCollection)
            handle.set_sizes([40])
        ax.set(
            xscale="log",
            yscale="log",
            xlim=(low, high),
            xlabel="operations per byte",
            ylabel="operations per second",
            title=f"{self.clock.spec.name} on {_devices(self.clock)}: {_time(self.iteration_s)} an iteration",
        )
        bandwidth = device.memory_bytes_per_s
        ax.annotate(
            f"{bandwidth / 1e12:.3g} TB/s", (low, low * bandwidth), (24, 8), textcoords="offset points", fontsize=8
        )
        return ax


def iteration(
    clock: Roofline,
    *,
    prefill_tokens: int = 0,
    decode_seqs: int = 0,
    context_tokens: int = 0,
    use: MemoryUse | None = None,
    block_size: int = 16,
) -> IterationAnswer:
    """Price one iteration and a lone request, operator by operator, and count what fits in memory.

    Args:
        clock: model, hardware and how they are joined.
        prefill_tokens: tokens of the prompt that the iteration computes, all of it; 0 for none.
        decode_seqs: requests that decode.
        context_tokens: context of each of them, the token being fed included.
        use: how much of the device memory an engine may use.
        block_size: tokens in a KV block.

    Raises:
        ValueError: the iteration is empty, or decodes have no context.
    """
    batch = BatchSize(prefill_tokens, decode_seqs, context_tokens)
    if not prefill_tokens and not decode_seqs:
        raise ValueError("an iteration needs prompt tokens or decodes (--prefill or --decode)")
    if decode_seqs and not context_tokens:
        raise ValueError("decodes need a context of 1 token or more (--context)")
    found = clock.measure(batch.terms)
    operators = []
    for operator in clock.operators:
        rates, count = clock.rates(operator), operator.count
        runs = float(found[operator.runs].first)
        flops, moved = (count * float(amount(form, found).first) for form in (operator.flops, operator.bytes))
        if not runs or (not flops and not moved and not rates.overhead_s):
            continue
        busy = count * float(amount(operator.busy_flops or operator.flops, found).first)
        spent: dict[Bound, float] = {
            "compute": busy * rates.seconds_per_flop,
            "link" if operator.kind == "collective" else "memory": moved * rates.seconds_per_byte,
            "overhead": count * rates.overhead_s,
        }
        operators.append(
            OperatorTime(
                name=operator.name,
                calls=count,
                flops=flops,
                bytes=moved,
                bound=max(spent, key=lambda part: spent[part]),
                time_s=float(seconds(operator, rates, found).first),
                dtype=operator.dtype,
            )
        )
    alone = BatchSize(prefill_tokens, 0, 0)
    context = context_tokens or prefill_tokens + 1
    use = use or MemoryUse()
    memory = memory_budget(
        clock.spec,
        clock.device,
        clock.parallel,
        use,
        dtype=clock.dtype,
        expert_dtype=clock.expert_dtype,
        kv_dtype=clock.kv_dtype,
    )
    return IterationAnswer(
        clock=clock,
        batch=batch,
        operators=tuple(operators),
        iteration_s=math.fsum(operator.time_s for operator in operators),
        ttft_s=clock.front_end_s + float(clock.seconds(alone.terms)) if prefill_tokens else None,
        tpot_s=float(clock.seconds(BatchSize(0, 1, context).terms)),
        memory=memory,
        use=use,
        block_size=block_size,
        warnings=_warnings(clock, memory, block_size),
    )


def _warnings(clock: Roofline, memory: MemoryBudget, block_size: int) -> tuple[str, ...]:
    found = []
    name, fitted = clock.device.name, fitted_for(clock.device.name)
    if fitted == "generic":
        found.append(f"no kernels were measured on {name}: efficiencies are generic (calibrate them to your machine)")
    elif fitted != name:
        found.append(f"efficiencies are those of {fitted}, a relative of {name}")
    if clock.parallel.devices > 1 and clock.link is None:
        found.append("links have their nominal bandwidth and latency; measured ones (link) can be far from them")
    if not memory.num_blocks(block_size):
        found.append("the model does not fit: no memory is left for the KV cache")
    return tuple(found)


def _devices(clock: Roofline) -> str:
    count = clock.parallel.devices
    return f"{count} x {clock.device.name}" if count > 1 else clock.device.name


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
