"""A scenario from a few words: the name of a model, of an accelerator, and a rate."""

from collections.abc import Mapping
from typing import Any

from jaxsim.config.errors import ScenarioError
from jaxsim.config.facts import is_path
from jaxsim.config.io import parse_scenario
from jaxsim.config.presets import chosen, expanded
from jaxsim.config.schema import READER, Scenario
from jaxsim.latency import Roofline
from jaxsim.specs import MemoryUse

_LARGE_BYTES = 70 * 2**30
"""From this much device memory on, vLLM's server chooses larger batches by default (not on an A100)."""

_HOST_S = 1.0e-3
"""What the host adds to an iteration: 0.96 ms on the one server it was measured on (benchmarks/LATENCY.md)."""

_BLOCK_SIZE = 16
_MEMORY_SHARE = 0.9
_CONTEXT = 32768


def quick_scenario(model: str, hardware: str, rate: float | None = None, **choices: Any) -> Scenario:
    """A scenario of a preset workload on equal instances of a named model and accelerator.

    Args:
        model: name of a model, or a file as in a scenario.
        hardware: name of an accelerator, or a file.
        rate: requests per second; that of the preset by default.
        **choices: as in `quick_sections`.

    Raises:
        ScenarioError: a name is not known, or the model does not fit.
    """
    return parse_scenario(quick_sections(model, hardware, rate, **choices))


def quick_sections(
    model: str,
    hardware: str,
    rate: float | None = None,
    *,
    workload: str = "chat",
    prompt_tokens: Any = None,
    output_tokens: Any = None,
    num_requests: int | None = None,
    instances: int = 1,
    tensor_parallel: int | None = None,
    dtype: str | None = None,
    kv_dtype: str | None = None,
    seeds: int = 8,
) -> dict[str, Any]:
    """The same scenario as plain data, with what a file would say and no more.

    Batches are those that vLLM's server chooses for the accelerator, the KV pool is what its memory leaves.

    Args:
        model: name of a model, or a file as in a scenario.
        hardware: name of an accelerator, or a file.
        rate: requests per second; that of the preset by default.
        workload: one of the presets.
        prompt_tokens: tokens of every prompt, or a distribution of them, in place of the preset's.
        output_tokens: the same of outputs.
        num_requests: requests of a seed; 1,000 by default.
        instances: how many equal instances.
        tensor_parallel: devices of an instance; by default the fewest (1, 2, 4 ... of one node) that hold the model
            and the longest request.
        dtype: format of the weights; as published by default.
        kv_dtype: format of the KV cache; bf16 by default.
        seeds: independent replications.

    Raises:
        ScenarioError: a name is not known, or the model does not fit.
    """
    preset = chosen(workload, "workload")
    changes: dict[str, Any] = {"preset": workload}
    for name, value in (("prompt_tokens", prompt_tokens), ("output_tokens", output_tokens)):
        if value is not None:
            changes[name] = value if isinstance(value, Mapping) else {"kind": "fixed", "value": value}
    for name, value in (("rate", rate), ("num_requests", num_requests)):
        if value is not None:
            changes[name] = value
    requests = expanded(changes)
    longest = _longest(requests)
    formats = {name: value for name, value in (("dtype", dtype), ("kv_dtype", kv_dtype)) if value is not None}
    clock = {"kind": "roofline", "model": model, "hardware": hardware, **formats}
    batches = _batches(clock)
    devices = tensor_parallel or _devices(clock, batches, longest)
    return {
        "name": f"{workload} on {_called(model)}, {_called(hardware)}",
        "workload": requests,
        "slo": dict(preset.slo),
        "cluster": {
            "instances": [
                {
                    "count": instances,
                    "latency": {**clock, "tensor_parallel": devices, "host_s": _HOST_S},
                    "scheduler": {"kind": "vllm_v1", **batches, "max_model_len": context_for(longest)},
                    "kv_cache": {"gpu_memory_utilization": _MEMORY_SHARE, "block_size": _BLOCK_SIZE},
                }
            ]
        },
        "monte_carlo": {"seeds": seeds, "warmup_requests": requests["num_requests"] // 10},
    }


def context_for(longest: int) -> int:
    """Room for a request of `longest` tokens, in the usual size of a context."""
    size = _CONTEXT
    while size < longest:
        size *= 2
    return size


def _called(text: str) -> str:
    return text.rstrip("/").split("/")[-1] if is_path(text) else text


def _longest(workload: Mapping[str, Any]) -> int:
    """Tokens of the longest request; a usual context where a distribution does not say."""
    sizes = [
        workload[name].get("max", workload[name].get("value", _CONTEXT // 2))
        for name in ("prompt_tokens", "output_tokens")
    ]
    return sum(size if isinstance(size, int) else _CONTEXT // 2 for size in sizes)


def _clock(data: Mapping[str, Any]) -> Roofline:
    return READER.read(Roofline, data)


def _batches(clock: Mapping[str, Any]) -> dict[str, int]:
    """Limits of a batch as vLLM 0.33's server chooses them."""
    device = _clock(clock).device
    large = device.memory_bytes >= _LARGE_BYTES and not device.name.startswith("a100")
    return {"max_num_batched_tokens": 8192 if large else 2048, "max_num_seqs": 1024 if large else 256}


def _devices(clock: Mapping[str, Any], batches: Mapping[str, int], longest: int) -> int:
    """The fewest devices that hold the weights and the longest request.

    Raises:
        ScenarioError: no number of devices of one node does.
    """
    use = MemoryUse(gpu_memory_utilization=_MEMORY_SHARE, **batches)
    most, devices, problem = _clock(clock).device.devices_per_node, 1, ""
    while devices <= most:
        try:
            blocks = _clock({**clock, "tensor_parallel": devices}).num_blocks(use, _BLOCK_SIZE)
        except ValueError as error:
            problem = error.problem if isinstance(error, ScenarioError) else str(error)
        else:
            if blocks * _BLOCK_SIZE >= longest:
                return devices
            problem = f"its KV cache has {blocks * _BLOCK_SIZE:,} tokens, the longest request {longest:,}"
        devices *= 2
    raise ScenarioError(f"does not fit on the {most} devices of one node: {problem}", "model")
