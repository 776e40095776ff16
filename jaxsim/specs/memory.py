"""Device memory: what weights and overheads leave for the KV cache."""

from typing import NamedTuple

from jaxsim._component import check, component
from jaxsim.specs.dtypes import BYTES
from jaxsim.specs.hardware import HardwareSpec
from jaxsim.specs.model import ModelSpec
from jaxsim.specs.parallelism import Parallelism

_COMMUNICATION_BYTES = {1: 0.0, 2: 358_612_992.0, 4: 411_041_792.0}
"""Buffers of NCCL by number of devices (AIConfigurator 0.12, measured); as for 4 from there on."""


@component
class MemoryUse:
    """What an engine keeps on a device beside weights and KV cache, and how much of the device it may use at all.

    With the defaults this comes to 1.2-2.2 GB per device, the overhead that was measured on servers.

    Attributes:
        gpu_memory_utilization: share of the device memory that the engine may use, in (0, 1].
        max_num_batched_tokens: tokens of the largest batch: activations are held for them.
        max_num_seqs: sequences of the largest batch: logits are held for them.
        typical_context_tokens: context of a typical request: layers with a sliding window keep at most their window of
            it, which lowers the bytes of a token by that share.
        cuda_graphs_bytes: captured graphs.
        runtime_bytes: context of the driver and libraries.
    """

    gpu_memory_utilization: float = 0.9
    max_num_batched_tokens: int = 2048
    max_num_seqs: int = 256
    typical_context_tokens: int = 2048
    cuda_graphs_bytes: float = 0.5e9
    runtime_bytes: float = 0.3e9

    def __post_init__(self) -> None:
        check(self, "gpu_memory_utilization", lambda value: 0 < value <= 1, "a share in (0, 1]")
        for field in ("max_num_batched_tokens", "max_num_seqs", "typical_context_tokens"):
            check(self, field, lambda value: value >= 1, "1 or greater")
        for field in ("cuda_graphs_bytes", "runtime_bytes"):
            check(self, field, lambda value: value >= 0, "0 or greater")


class MemoryBudget(NamedTuple):
    """Bytes of one device, by use."""

    usable: float
    weights: float
    activations: float
    cuda_graphs: float
    communication: float
    runtime: float
    kv_bytes_per_token: float
    """What a token takes of the KV cache."""

    @property
    def overhead(self) -> float:
        """Everything but weights and KV cache."""
        return self.activations + self.cuda_graphs + self.communication + self.runtime

    @property
    def kv_cache(self) -> float:
        """Bytes left for the KV cache; negative if the model does not fit."""
        return self.usable - self.weights - self.overhead

    def num_blocks(self, block_size: int = 16) -> int:
        """Whole KV blocks of `block_size` tokens that fit; 0 if none does."""
        return max(0, int(self.kv_cache // (block_size * self.kv_bytes_per_token)))


def memory_budget(
    model: ModelSpec,
    hardware: HardwareSpec,
    parallel: Parallelism,
    use: MemoryUse,
    *,
    dtype: str | None = None,
    expert_dtype: str | None = None,
    kv_dtype: str = "bf16",
) -> MemoryBudget:
    """What each part of an engine takes of one device of the fullest pipeline stage.

    Activations are the widest tensors of one layer that are alive together, for the largest batch, in 16 bits, and the
    logits of every sequence in 16 and 32 bits.
    """
    width = max(model.ffn, model.experts_per_token * model.expert_ffn + model.shared_expert_ffn)
    attention = 2 * (model.heads + model.kv_heads) * model.head_dim
    per_token = 3 * model.hidden + max(3 * width, attention) / parallel.tensor
    logits = use.max_num_seqs * model.vocab * (BYTES["bf16"] + BYTES["fp32"])
    kept = min(1.0, (model.sliding_window or 0) / use.typical_context_tokens)
    layers = model.layers - model.sliding_layers * (1 - kept)
    per_layer = model.kv_bytes_per_token_and_layer(kv_dtype, parallel.tensor)
    return MemoryBudget(
        usable=use.gpu_memory_utilization * hardware.memory_bytes,
        weights=parallel.weight_bytes(model, dtype, expert_dtype),
        activations=use.max_num_batched_tokens * per_token * BYTES["bf16"] + logits,
        cuda_graphs=use.cuda_graphs_bytes,
        communication=_COMMUNICATION_BYTES.get(parallel.devices, _COMMUNICATION_BYTES[4]),
        runtime=use.runtime_bytes,
        kv_bytes_per_token=layers / parallel.pipeline * per_layer,
    )


def num_blocks(
    model: ModelSpec,
    hardware: HardwareSpec,
    parallel: Parallelism | None = None,
    use: MemoryUse | None = None,
    *,
    block_size: int = 16,
    dtype: str | None = None,
    expert_dtype: str | None = None,
    kv_dtype: str = "bf16",
) -> int:
    """KV blocks of `block_size` tokens that fit on an instance.

    Raises:
        ValueError: none fits; the message says what takes the memory.
    """
    use = use or MemoryUse()
    budget = memory_budget(
        model, hardware, parallel or Parallelism(), use, dtype=dtype, expert_dtype=expert_dtype, kv_dtype=kv_dtype
    )
    blocks = budget.num_blocks(block_size)
    if not blocks:
        raise ValueError(
            f"{model.name} leaves no memory for KV blocks on {hardware.name}: weights take "
            f"{budget.weights / 1e9:.1f} GB and overheads {budget.overhead / 1e9:.1f} GB of the "
            f"{budget.usable / 1e9:.1f} GB that gpu_memory_utilization {use.gpu_memory_utilization:g} leaves; "
            "use more devices (tensor_parallel) or smaller weights (dtype)"
        )
    return blocks
