"""Fit efficiencies to the kernel times of one layer, and state the error of each kind of operator.

    python benchmarks/fit_kernel_profile.py FOLDER llama-3.1-8b rtx-pro-6000

The folder holds `dense.csv` (layer, tokens, time_us), `per_sequence.csv` (layer, sequences, time_us) and
`attention.csv` (prefill_chunk, kv_prefill, n_decode, kv_decode, time_us; kv_prefill is before the chunk). Each kind is
fitted on half of its rows; errors are those of the other half, with efficiencies and overhead and with one efficiency.
"""

import argparse
import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from fit_efficiency import ROW_ERROR, SHARES, TIMES
from scipy.optimize import least_squares

from jaxsim.latency.roofline import Roofline
from jaxsim.operators import Efficiency, KernelEfficiency
from jaxsim.operators.base import Operator, seconds

NAMES = {
    "qkv_proj": "QKV",
    "o_proj": "attention out",
    "gate_up_proj": "gate+up",
    "down_proj": "down",
    "lm_head": "LM head",
    "layernorm": "attention norm",
    "act_fn": "activation",
    "rotary_emb": "rotary+KV write",
    "embedding": "embedding",
}
TERMS = ("decode_seqs", "context_tokens", "prefill_seqs", "prefill_tokens", "prefill_pairs", "prefill_squares")


class Rows(NamedTuple):
    """Measured calls of one operator."""

    operator: Operator
    terms: dict[str, np.ndarray]
    measured_s: np.ndarray


def read(folder: Path, clock: Roofline) -> Iterator[Rows]:
    """The rows of the three files, by operator; mixed ones are left out."""
    operators = {operator.name: operator for operator in clock.operators}
    for file, column, term in (("dense", "tokens", "prefill_tokens"), ("per_sequence", "sequences", "decode_seqs")):
        table = list(csv.DictReader((folder / f"{file}.csv").open(encoding="utf-8")))
        for layer in sorted({row["layer"] for row in table} & set(NAMES)):
            rows = [row for row in table if row["layer"] == layer]
            counts = np.array([float(row[column]) for row in rows])
            yield _rows(operators[NAMES[layer]], rows, {term: counts})
    table = list(csv.DictReader((folder / "attention.csv").open(encoding="utf-8")))
    prompts = [row for row in table if row["n_decode"] == "0"]
    chunk, before = (np.array([float(row[key]) for row in prompts]) for key in ("prefill_chunk", "kv_prefill"))
    terms = {
        "prefill_seqs": np.ones_like(chunk),
        "prefill_tokens": chunk,
        "prefill_pairs": chunk * (before + chunk),
        "prefill_squares": chunk**2,
    }
    yield _rows(operators["prefill attention"], prompts, terms)
    decodes = [row for row in table if row["prefill_chunk"] == "0"]
    count, context = (np.array([float(row[key]) for row in decodes]) for key in ("n_decode", "kv_decode"))
    yield _rows(operators["decode attention"], decodes, {"decode_seqs": count, "context_tokens": count * context})


def _rows(operator: Operator, rows: list[dict[str, str]], terms: dict[str, np.ndarray]) -> Rows:
    measured = np.array([float(row["time_us"]) for row in rows]) * 1e-6
    return Rows(operator, {name: terms.get(name, np.zeros(len(rows))) for name in TERMS}, measured)


def predicted(rows: Rows, clock: Roofline, kernel: KernelEfficiency, tile_rows: float) -> np.ndarray:
    """Seconds of each call; with tiles of one row also without waves."""
    hardware = replace(clock.device, compute_units=1) if tile_rows == 1 else clock.device
    efficiency = Efficiency(**{rows.operator.kind: kernel}, prefill_tile_rows=tile_rows)
    other = Roofline(model=clock.model, hardware=hardware, efficiency=efficiency)
    total = seconds(rows.operator, other.rates(rows.operator), other.measure(rows.terms)).first
    return total / rows.operator.count


def fit(group: list[Rows], clock: Roofline, tile_rows: float, constant: bool) -> tuple[KernelEfficiency, float]:
    """The kernel efficiency of one kind of operator, and its mean absolute error on rows that it was not fitted to."""

    def kernel(logs: np.ndarray) -> KernelEfficiency:
        compute, memory, overhead = np.exp(logs)
        return KernelEfficiency(
            compute=compute,
            memory=(memory if group[0].operator.kind == "elementwise" else compute) if constant else memory,
            overhead_s=0.0 if constant else overhead,
        )

    halves = np.concatenate([np.random.default_rng(0).permutation(len(rows.measured_s)) % 2 for rows in group])
    measured = np.concatenate([rows.measured_s for rows in group])

    def errors(logs: np.ndarray) -> np.ndarray:
        return np.log(np.concatenate([predicted(rows, clock, kernel(logs), tile_rows) for rows in group]) / measured)

    cached = (
        8.0 if group[0].operator.kind == "elementwise" else SHARES[1]
    )  # what one kernel writes, the next finds in cache
    low, high = np.log([SHARES[0], SHARES[0], TIMES[0]]), np.log([SHARES[1], cached, TIMES[1]])
    start = np.log([0.7, 0.8, 3e-6])
    result = least_squares(
        lambda logs: errors(logs)[halves == 0], start, bounds=(low, high), loss="soft_l1", f_scale=ROW_ERROR
    )
    return kernel(result.x), float(np.abs(np.expm1(errors(result.x)))[halves == 1].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of kernel times")
    parser.add_argument("model", help="model whose layer was measured")
    parser.add_argument("hardware", help="what it was measured on")
    args = parser.parse_args()
    clock = Roofline(model=args.model, hardware=args.hardware)
    by_kind: dict[str, list[Rows]] = {}
    for rows in read(args.folder, clock):
        by_kind.setdefault(rows.operator.kind, []).append(rows)
    print(f"{'kind':20}{'tile':>6}{'compute':>9}{'memory':>8}{'t0 us':>8}{'error':>9}{'with one constant':>20}")
    for kind, group in by_kind.items():
        for tile_rows in (1.0, 16.0, 32.0, 64.0, 128.0) if kind == "prefill_attention" else (1.0,):
            found, error = fit(group, clock, tile_rows, constant=False)
            _, plain = fit(group, clock, tile_rows, constant=True)
            print(
                f"{kind:20}{tile_rows:6.0f}{found.compute:9.3f}{found.memory:8.3f}{found.overhead_s * 1e6:8.2f}"
                f"{100 * error:8.1f}%{100 * plain:19.1f}%"
            )


if __name__ == "__main__":
    main()
