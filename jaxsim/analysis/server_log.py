"""Requests of a server as samples of its iterations."""

import numpy as np

from jaxsim.analysis.samples import Samples, terms_of

MOST_SAMPLES = 2000
"""Requests that become samples, evenly chosen among all; every request counts as a neighbour of theirs."""

_BLOCK = 1 << 22


def log_samples(
    source: str,
    prompt_tokens: np.ndarray,
    output_tokens: np.ndarray,
    first_scheduled_s: np.ndarray,
    first_token_s: np.ndarray,
    finish_s: np.ndarray,
    *,
    max_num_batched_tokens: int,
) -> Samples:
    """The iterations from the first to the last token of each request, on an instance that serves these requests only.

    A request of n tokens decodes in n - 1 iterations. What they held follows from the log: the requests that decoded
    beside it, each taken to emit evenly between its first and last token, and the prompts that were computed meanwhile,
    each taken to be computed evenly between its first schedule and its first token. So every sample is a sum of two
    kinds of iterations: with a chunk of prompts and without, each with the average batch. For a linear clock that is
    exact; preemptions are not seen.

    Args:
        source: for messages.
        prompt_tokens: float64 `[N]`, and so are the following.
        output_tokens: tokens emitted.
        first_scheduled_s: start of the first iteration that computed the prompt.
        first_token_s: when it emitted its first token.
        finish_s: when it emitted its last token.
        max_num_batched_tokens: most tokens of one iteration, which tells in how many a prompt was computed.

    Raises:
        ValueError: no request has more than one token.
    """
    asked = np.flatnonzero(output_tokens > 1)
    if not len(asked):
        raise ValueError(f"{source}: no request has more than one output token, so none shows an iteration")
    asked = asked[np.linspace(0, len(asked) - 1, min(MOST_SAMPLES, len(asked))).round().astype(int)]
    steps = output_tokens - 1
    # prompts that emit their first token together were computed together
    _, group = np.unique(first_token_s.round(4), return_inverse=True)
    chunks = np.ceil(np.bincount(group, prompt_tokens) / max_num_batched_tokens) / np.bincount(group)
    sums: dict[str, list[np.ndarray]] = {
        name: [] for name in ("decodes", "context", "prompts", "tokens", "squares", "chunks")
    }
    for block in np.array_split(asked, max(1, len(asked) * len(steps) // _BLOCK)):
        start, end = first_token_s[block, None], finish_s[block, None]
        emitted = _passed(start, first_token_s, finish_s) * steps, _passed(end, first_token_s, finish_s) * steps
        tokens = emitted[1] - emitted[0]
        computed = _passed(end, first_scheduled_s, first_token_s) - _passed(start, first_scheduled_s, first_token_s)
        sums["decodes"].append(tokens.sum(axis=1))
        # a token emitted as the x-th of a request read its prompt and x + 1 tokens, on average over x
        sums["context"].append((tokens * (prompt_tokens + (emitted[0] + emitted[1] + 1) / 2)).sum(axis=1))
        sums["prompts"].append(computed.sum(axis=1))
        sums["tokens"].append((computed * prompt_tokens).sum(axis=1))
        sums["squares"].append((computed * prompt_tokens**2).sum(axis=1))
        sums["chunks"].append((computed * chunks[group]).sum(axis=1))
    total = {name: np.concatenate(parts) for name, parts in sums.items()}
    iterations = steps[asked]
    with_chunk = np.minimum(total["chunks"], iterations)
    each = {name: value / np.maximum(with_chunk, 1e-12) for name, value in total.items()}
    decodes, context = total["decodes"] / iterations, total["context"] / iterations
    plain = terms_of(decode_seqs=decodes, context_tokens=context)
    beside = terms_of(
        decode_seqs=decodes,
        context_tokens=context,
        prefill_seqs=each["prompts"],
        prefill_tokens=each["tokens"],
        prefill_pairs=each["squares"],
        prefill_squares=each["squares"],
    )
    return Samples(
        source=source,
        time_s=(finish_s - first_token_s)[asked],
        count=np.stack([iterations - with_chunk, with_chunk], axis=1),
        terms={name: np.concatenate([plain[name], beside[name]], axis=1) for name in plain},
        of="requests",
    )


def _passed(at: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The share of each interval `[N]` that has passed at some times `[B, 1]`: `[B, N]`."""
    return np.clip((at - start) / np.maximum(end - start, 1e-12), 0, 1)
