"""A scenario that takes many chunks, and the command line with small chunks."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SCENARIO = """\
name: chunks
workload:
  kind: synthetic
  num_requests: 40
  arrivals: {kind: poisson, rate: 12.0}
  prompt_tokens: {kind: lognormal, median: 100, sigma: 1.0, max: 700}
  output_tokens: {kind: uniform, min: 1, max: 40}
slo: {ttft_s: 0.5}
cluster:
  router: {kind: random}
  instances:
    - count: 2
      latency: {kind: linear, base_s: 5e-3, per_token_s: 2e-5, per_context_token_s: 1e-6}
      scheduler: {kind: vllm_v1, max_num_batched_tokens: 128, max_num_seqs: 4, async_scheduling: false}
      kv_cache: {num_blocks: 60}
monte_carlo: {seeds: 32, first_seed: 5}
"""
"""A small pool: some chunks hold requests so large that blocks are counted and some do not."""

SEEDS_PER_CHUNK = 4
CHUNKS = 8


def write(folder: Path) -> str:
    """The scenario as a file."""
    file = folder / "chunks.yaml"
    file.write_text(SCENARIO)
    return str(file)


def command(*arguments: str) -> list[str]:
    """A command line of jaxsim, for a process of its own, with small chunks."""
    return [sys.executable, __file__, *arguments]


PAUSE = "SECONDS_BEFORE_A_CHUNK"
"""Environment variable of such a process: how long it sleeps each time, so that it can be interrupted in between."""


def _slowly(simulate_chunk: Callable[..., Any]) -> Callable[..., Any]:
    def slowly(*args: Any) -> Any:
        time.sleep(float(os.environ.get(PAUSE, "0")))
        return simulate_chunk(*args)

    return slowly


if __name__ == "__main__":
    from jaxsim import simulate
    from jaxsim.cli.main import main

    simulate.REQUESTS_PER_CHUNK = 40 * SEEDS_PER_CHUNK
    simulate._chunk = _slowly(simulate._chunk)
    sys.exit(main(sys.argv[1:]))
