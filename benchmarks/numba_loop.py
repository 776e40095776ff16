"""The reference model as one scalar event loop, compiled with numba: what a vectorised engine has to beat.

Claim: this loop is a fair denominator. It simulates all that jaxsim records of the reference workload (`reference.py`),
leaps from event to event, and is at least as fast as a leaner scalar loop without block accounting and histogram:

    python benchmarks/numba_loop.py [--against OTHER_LOOP.py] [--seeds 200]

`OTHER_LOOP.py` must have a function `rate(V, N, lam, leap)` that returns requests per second. Without it the loop is
only measured. Both are pinned to one core and take turns.

The model: one instance of vLLM's V1 scheduler, first come first served, synchronous, chunked prefill, the whole prompt
reserved, no prefix caching, no watermark; linear latency; KV blocks counted exactly where they might not suffice. Every
request must fit the pool and the model length, and `max_num_seqs` must not exceed `max_num_batched_tokens`.
"""

import argparse
import math
import runpy
from typing import NamedTuple

import numba
import numpy as np
from machine import Timer, describe, pin
from reference import Reference, draw

ITL_MANTISSA_BITS, ITL_FIRST_OCTAVE, ITL_BINS = 6, -20, 34 << 6
"""Bins of the gaps between tokens: those of jaxsim, the leading bits of a float32."""

SPREAD = 1 / 64
"""A stretch is counted at its mean gap; it is cut where gaps would differ by more than this share."""

NEVER = 1 << 60


class Outcome(NamedTuple):
    """What R seeds of N requests recorded; times in seconds `[R, N]`, sums `[R]`."""

    first_scheduled_s: np.ndarray
    first_token_s: np.ndarray
    finish_s: np.ndarray
    preemptions: np.ndarray
    itl_counts: np.ndarray
    kv_token_seconds: np.ndarray
    iterations: np.ndarray


def run(model: Reference, arrival_s: np.ndarray, prompt: np.ndarray, output: np.ndarray, leap: bool = True) -> Outcome:
    """Simulate every seed: float64, int32, int32 `[R, N]`."""
    shape = arrival_s.shape
    found = Outcome(
        *(np.full(shape, math.nan) for _ in range(3)),
        np.zeros(shape, np.int32),
        np.zeros((shape[0], ITL_BINS), np.int64),
        np.zeros(shape[0]),
        np.zeros(shape[0], np.int64),
    )
    _seeds(model, arrival_s, prompt, output, leap, found)
    return found


@numba.njit(nogil=True, error_model="numpy")
def _seeds(model, arrival_s, prompt, output, leap, found):
    for row in range(arrival_s.shape[0]):
        kv, iterations = _seed(
            model,
            arrival_s[row],
            prompt[row],
            output[row],
            leap,
            found.first_scheduled_s[row],
            found.first_token_s[row],
            found.finish_s[row],
            found.preemptions[row],
            found.itl_counts[row],
        )
        found.kv_token_seconds[row] = kv
        found.iterations[row] = iterations


@numba.njit(nogil=True, error_model="numpy", inline="always")
def _blocks(tokens, size):
    return (tokens + size - 1) // size


@numba.njit(nogil=True, error_model="numpy", inline="always")
def _exact_blocks(offset, count, iteration, size):
    held = 0
    for slot in range(count):
        held += (offset[slot] + iteration + size - 1) // size
    return held


@numba.njit(nogil=True, error_model="numpy", inline="always")
def _duration(first, growth, k):
    return k * first + (0.5 * growth) * (k * (k - 1.0))


@numba.njit(nogil=True, error_model="numpy")
def _seed(model, arrival_s, prompt, output, leap, first_scheduled, first_token, finish, preemptions, itl):
    base, per_token, per_context, per_pair = model.base_s, model.per_token_s, model.per_context_s, model.per_pair_s
    budget, most, pool, size = model.max_num_batched_tokens, model.max_num_seqs, model.num_blocks, model.block_size
    requests = arrival_s.shape[0]
    gap, gap_bits = _bits()

    # Decodes. None of them is touched from one iteration to the next: slot i feeds the token at context
    # offset[i] + iteration, and has emitted its last token once the count of iterations is last[i].
    request, offset, last = np.empty(most, np.int32), np.empty(most, np.int64), np.empty(most, np.int64)
    decodes, context, soonest = 0, 0, NEVER
    iteration = 0
    # The prompt that is partly computed (at most one), prompts that this iteration completes, and those preempted.
    partial, computed, known = -1, 0, 0
    joining, preempted = np.empty(most, np.int32), np.empty(most, np.int32)
    waiting = 0
    emitted, last_token = np.zeros(requests, np.int32), np.empty(requests)

    now, head, done, steps, kv = 0.0, 0, 0, 0, 0.0
    while done < requests:
        # running requests: one token for every decode, what is left of the budget for the partial prompt
        room = budget - decodes
        piece = min(known - computed, room) if partial >= 0 else 0
        held = (context + decodes * (size - 1)) // size  # at most; exact only where it matters
        other = _blocks(computed + piece, size) if partial >= 0 else 0
        exact = held + other > pool
        relieved = False
        if exact:
            held = _exact_blocks(offset, decodes, iteration, size)
            while held + other > pool:
                relieved = True
                if partial >= 0:
                    preempted[waiting] = partial
                    preemptions[partial] += 1
                    partial, piece, other = -1, 0, 0
                else:
                    slot = 0  # the last admitted is the last that arrived
                    for i in range(1, decodes):
                        if request[i] > request[slot]:
                            slot = i
                    victim = request[slot]
                    preempted[waiting] = victim
                    preemptions[victim] += 1
                    emitted[victim] = output[victim] - (last[slot] - iteration)
                    last_token[victim] = now
                    at = offset[slot] + iteration
                    held -= _blocks(at, size)
                    context -= at
                    decodes -= 1
                    request[slot], offset[slot], last[slot] = request[decodes], offset[decodes], last[decodes]
                    soonest = NEVER
                    for i in range(decodes):
                        soonest = min(soonest, last[i])
                waiting += 1

        tokens, pairs, fed, resident = piece, 0, 0, context
        joined = 0
        if partial >= 0:
            if piece == 1 and known - computed == 1:
                fed += computed + 1
            else:
                pairs += piece * (computed + piece)
            computed += piece
            room -= piece
            resident += computed
            if computed == known:
                joining[0] = partial
                joined = 1
                partial = -1

        # waiting requests
        while not relieved and room > 0 and partial < 0 and decodes + joined < most:
            if waiting > 0:
                candidate = preempted[waiting - 1]
            elif head < requests and arrival_s[head] <= now:
                candidate = head
            else:
                break
            whole = prompt[candidate] + emitted[candidate]
            if held + other + _blocks(whole, size) > pool:
                if not exact:
                    held, exact = _exact_blocks(offset, decodes, iteration, size), True
                if held + other + _blocks(whole, size) > pool:
                    break
            if waiting > 0:
                waiting -= 1
            else:
                head += 1
                first_scheduled[candidate] = now
            taken = min(whole, room)
            other += _blocks(taken, size)
            room -= taken
            tokens += taken
            resident += taken
            if taken == 1 and whole == 1:
                fed += 1
            else:
                pairs += taken * taken
            if taken == whole:
                joining[joined] = candidate
                joined += 1
            else:
                partial, computed, known = candidate, taken, whole

        if tokens == 0 and decodes == 0:
            if not relieved:
                now = arrival_s[head]
            continue

        if tokens > 0:
            seconds = (base + per_token * (decodes + tokens)) + per_context * (context + fed) + per_pair * pairs
            gap[0] = seconds
            itl[_bin(gap_bits)] += decodes
            kv += seconds * resident
            now += seconds
            k = 1
        else:  # nothing but decodes, and nothing else until one ends, a request arrives or blocks may run out
            first = (base + per_token * decodes) + per_context * context
            growth = per_context * decodes
            k = 1
            if leap and not relieved:
                k = min(soonest - iteration, max(1, (pool * size - (size - 1) * decodes - context) // decodes + 1))
                if waiting == 0 and head < requests and decodes < most and arrival_s[head] > now:
                    k = min(k, _until(first, growth, arrival_s[head] - now, k))
            seconds = _duration(first, growth, float(k))
            kv += resident * seconds + decodes * (0.5 * k * (k - 1.0)) * (first + growth * ((2.0 * k - 1.0) / 3.0))
            start = 0
            while start < k:  # one credit where gaps are nearly equal
                lowest = first + growth * start
                n = int(min(k - start, 1.0 + SPREAD * lowest / growth))
                gap[0] = lowest + growth * (0.5 * (n - 1))
                itl[_bin(gap_bits)] += n * decodes
                start += n
            now += seconds
        steps += k
        iteration += k
        context += k * decodes

        if iteration == soonest:
            soonest = NEVER
            slot = 0
            while slot < decodes:
                if last[slot] == iteration:
                    finish[request[slot]] = now
                    done += 1
                    context -= offset[slot] + iteration
                    decodes -= 1
                    request[slot], offset[slot], last[slot] = request[decodes], offset[decodes], last[decodes]
                else:
                    soonest = min(soonest, last[slot])
                    slot += 1
        for i in range(joined):
            joiner = joining[i]
            whole = prompt[joiner] + emitted[joiner]
            if emitted[joiner] == 0:
                first_token[joiner] = now
            else:
                gap[0] = now - last_token[joiner]
                itl[_bin(gap_bits)] += 1
            emitted[joiner] += 1
            left = output[joiner] - emitted[joiner]
            if left == 0:
                finish[joiner] = now
                done += 1
            else:
                request[decodes], offset[decodes], last[decodes] = joiner, whole + 1 - iteration, iteration + left
                soonest = min(soonest, last[decodes])
                context += whole + 1
                decodes += 1
    return kv, steps


@numba.njit(nogil=True, inline="always")
def _bits():
    number = np.empty(1, np.float32)
    return number, number.view(np.int32)


@numba.njit(nogil=True, inline="always")
def _bin(bits):
    code = (bits[0] >> (23 - ITL_MANTISSA_BITS)) - ((127 + ITL_FIRST_OCTAVE) << ITL_MANTISSA_BITS)
    return min(max(code, 0), ITL_BINS - 1)


@numba.njit(nogil=True, error_model="numpy", inline="always")
def _until(first, growth, wait, most):
    """Smallest k whose duration reaches `wait`, or more than `most`."""
    if _duration(first, growth, float(most)) < wait:
        return most + 1
    half = 0.5 * growth
    linear = first - half
    k = np.ceil(2 * wait / (linear + np.sqrt(linear * linear + 4 * half * wait)))
    if _duration(first, growth, k - 1.0) >= wait:
        k -= 1.0
    elif _duration(first, growth, k) < wait:
        k += 1.0
    return int(max(k, 1.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="FILE", help="another scalar loop to measure beside this one")
    parser.add_argument("--seeds", type=int, default=200)
    args = parser.parse_args()
    pin(1)
    print(describe())
    model = Reference()
    other = runpy.run_path(args.against)["rate"] if args.against else None
    for leap in (True, False):
        requests = draw(model, args.seeds)
        run(model, *(column[:1] for column in requests), leap)  # compiles
        timer = Timer()
        theirs = []
        for _ in range(5):
            with timer:
                run(model, *requests, leap)
            if other:
                theirs.append(other(V=args.seeds, leap=leap))
        ours = requests[0].size / timer.best_cpu_s
        name = "leaping" if leap else "stepping"
        print(f"{name:10} {ours / 1e6:6.2f} million requests/s", end="")
        print(f", the other {max(theirs) / 1e6:.2f}, ratio {ours / max(theirs):.2f}" if theirs else "")


if __name__ == "__main__":
    main()
