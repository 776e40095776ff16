"""Small clusters for cases worked by hand: every iteration takes one second, a block holds one token."""

from typing import Any

SECOND = {"kind": "linear", "base_s": 1.0}


def group(count: int = 1, num_blocks: int | None = None, **keys: Any) -> dict[str, Any]:
    """`count` instances; `scheduler` and other keys of DESIGN's `instances` may be given."""
    scheduler = {"kind": "vllm_v1", "async_scheduling": False} | keys.pop("scheduler", {})
    if scheduler["kind"] != "vllm_v1":
        del scheduler["async_scheduling"]
    kv_cache = {"num_blocks": num_blocks, "block_size": 1} | keys.pop("kv_cache", {})
    return {"count": count, "latency": SECOND, "scheduler": scheduler, "kv_cache": kv_cache, **keys}


def disaggregated(
    transfer: dict[str, Any], decode: dict[str, Any] | None = None, prefills: int = 1, **keys: Any
) -> dict[str, Any]:
    """A cluster of prefill and decode instances. A transfer takes a second for every token unless told otherwise."""
    model = {"latency_s": 0.0, "bandwidth_bytes_per_s": 1.0, "bytes_per_token": 1.0, "contention": "none"} | transfer
    instances = [group(prefills, role="prefill"), group(role="decode", **(decode or {}))]
    return {"instances": instances, "kv_transfer": model, **keys}
