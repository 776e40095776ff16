"""The scenario file that `jaxsim init` writes: short, commented, and ready to run."""

import textwrap

from jaxsim.config.presets import PRESETS
from jaxsim.config.quick import context_for
from jaxsim.config.text import dump_yaml

_TEMPLATE = """\
# {summary}.
# Run it with: jaxsim run {file}
# All that a scenario may say: jaxsim schema
name: {name}

# What arrives. Lengths: {source}.
# Other arrivals: gamma, weibull (bursty), on_off, markov, piecewise (a rate per time of day), constant, burst.
# To replay recorded requests: workload: {{kind: trace, path: requests.csv}}; to imitate them: jaxsim trace fit
{workload}
# What was promised: a statistic of a latency and its limit in seconds.
{slo}
cluster:
  router: {{kind: round_robin}}
  instances:
    - count: 1                  # how many equal instances
      # Seconds of one iteration of the engine: base + per new token + per token of context that decodes read
      # + per pair of a prefilled token and one before it. These figures are those of an 8B model on one large GPU;
      # jaxsim calibrate fits them to measured iterations.
      latency:
        {{kind: linear, base_s: 5.0e-3, per_token_s: 2.0e-5, per_context_token_s: 1.0e-8, per_prefill_pair_s: 5.0e-10}}
      scheduler:
        kind: vllm_v1
        max_num_batched_tokens: 2048    # new tokens in one iteration
        max_num_seqs: 256               # requests running at a time
        max_model_len: {max_model_len}            # longest prompt with its output
        async_scheduling: false
      # Memory for keys and values: blocks of 16 tokens.
      kv_cache: {{num_blocks: 20000, block_size: 16}}

# Independent replications: every statistic comes with a 95 % confidence interval. The first requests of each meet an
# empty fleet and are not measured.
monte_carlo: {{seeds: 16, warmup_requests: 100}}
"""


def starter(preset: str, file: str) -> str:
    """A scenario file with the workload of a preset.

    Args:
        preset: name of one of `PRESETS`.
        file: what the scenario will be called.
    """
    chosen = PRESETS[preset]
    longest = sum(chosen.workload[name]["max"] for name in ("prompt_tokens", "output_tokens"))
    text = _TEMPLATE.format(
        summary=chosen.summary[0].upper() + chosen.summary[1:],
        source="{source}",
        file=file,
        name=preset,
        workload=dump_yaml({"workload": dict(chosen.workload)}),
        slo=dump_yaml({"slo": dict(chosen.slo)}),
        max_model_len=context_for(longest),
    )
    return text.replace("# What arrives. Lengths: {source}.\n", _comment(f"What arrives. Lengths: {chosen.source}."))


def _comment(text: str) -> str:
    lines = textwrap.wrap(text, 116, break_on_hyphens=False, break_long_words=False)
    return "".join(f"# {line}\n" for line in lines)
