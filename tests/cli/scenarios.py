"""Scenario files that run in a moment."""

_CLUSTER = """\
cluster:
  instances:
    - latency: {kind: linear, base_s: 5e-3, per_token_s: 2e-5}
      scheduler: {kind: vllm_v1, max_num_seqs: 8, async_scheduling: false}
      kv_cache: {num_blocks: 1000}
"""

SMALL = f"""\
name: small
workload:
  kind: synthetic
  num_requests: 50
  arrivals: {{kind: poisson, rate: 20.0}}
  prompt_tokens: {{kind: fixed, value: 32}}
  output_tokens: {{kind: uniform, min: 1, max: 16}}
{_CLUSTER}
monte_carlo: {{seeds: 2}}
"""

TRACE = f"""\
name: replay
workload: {{kind: trace, path: trace.csv}}
{_CLUSTER}
"""
