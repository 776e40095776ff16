"""Outcome codes of lanes and requests, each with what it means and what to do about it."""

import enum


class RequestStatus(enum.IntEnum):
    """What became of one request."""

    COMPLETED = 0
    REJECTED = 1
    UNFINISHED = 2
    LOST = 3
    ABORTED = 4

    @property
    def advice(self) -> str:
        """One sentence for a reader of the results."""
        return {
            RequestStatus.COMPLETED: "emitted all its tokens",
            RequestStatus.REJECTED: "can never be served by this engine (on_infeasible: reject); raise max_model_len "
            "or kv_cache.num_blocks to serve it",
            RequestStatus.UNFINISHED: "was still queued or running when its lane stopped",
            RequestStatus.LOST: "was dropped by an unavailable instance (on_failure: lose)",
            RequestStatus.ABORTED: "was given up by the scheduler: alone, it had outgrown the KV pool",
        }[self]


class LaneStatus(enum.IntEnum):
    """How one lane (one seed of one instance) ended."""

    OK = 0
    SLOTS_EXCEEDED = 1
    BLOCKS_EXCEEDED = 2
    NO_PROGRESS = 3
    INTERRUPTED = 4
    TRANSFERS_EXCEEDED = 5

    @property
    def advice(self) -> str:
        """One sentence for a reader of the results."""
        return {
            LaneStatus.OK: "every request finished",
            LaneStatus.SLOTS_EXCEEDED: "more requests ran at once than the lane had slots; it is run again with more",
            LaneStatus.BLOCKS_EXCEEDED: "its KV pool came near its limit; it is run again with its blocks counted",
            LaneStatus.NO_PROGRESS: "the scheduler can never serve the head of its queue: raise "
            "max_num_batched_tokens or kv_cache.num_blocks, or allow chunked prefill",
            LaneStatus.INTERRUPTED: "stopped by the user before it finished",
            LaneStatus.TRANSFERS_EXCEEDED: "more KV transfers were under way at once than the lane had room for; it is "
            "run again with more",
        }[self]
