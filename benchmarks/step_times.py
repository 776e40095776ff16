"""Files of step times (`model,hardware,tp,dtype,phase,batch,tokens_per_seq,time_s`) as batch terms for a roofline.

Phases: `prefill`: `batch` prompts of `tokens_per_seq` tokens; `decode`: `batch` requests, each at context
`tokens_per_seq + 1`; `mixedC`: C tokens of 2048-token prompts beside `batch` decodes at context `tokens_per_seq`.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jaxsim.latency.roofline import Roofline
from jaxsim.operators import Efficiency

MIXED_PROMPT = 2048
"""Tokens of the prompt that a mixed row computes a chunk of; the chunk is taken from its middle."""


@dataclass(frozen=True)
class StepTimes:
    """One file.

    Attributes:
        name: of the file.
        clock: a roofline of its model, hardware and parallelism, with shipped efficiencies.
        terms: batch terms by name, one element a row.
        phase: `prefill`, `decode` or `mixed`, one a row.
        measured_s: seconds, one a row.
    """

    name: str
    clock: Roofline
    terms: dict[str, np.ndarray]
    phase: np.ndarray
    measured_s: np.ndarray

    def errors(self, efficiency: Efficiency | None = None) -> np.ndarray:
        """Relative errors of the model, one a row. Sums of kernels hold no cost of mixed iterations."""
        clock = roofline(self.clock, efficiency or Efficiency(mixed_layer_s=0.0))
        return clock.seconds(self.terms) / self.measured_s - 1


def roofline(clock: Roofline, efficiency: Efficiency) -> Roofline:
    """The same roofline with other efficiencies."""
    return Roofline(
        model=clock.model,
        hardware=clock.hardware,
        tensor_parallel=clock.tensor_parallel,
        dtype=clock.dtype,
        efficiency=efficiency,
    )


def read(path: Path) -> StepTimes:
    """Read one file."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    first = rows[0]
    clock = Roofline(
        model=first["model"], hardware=first["hardware"], tensor_parallel=int(first["tp"]), dtype=first["dtype"]
    )
    terms = [_terms(row["phase"], float(row["batch"]), float(row["tokens_per_seq"])) for row in rows]
    phases = ["mixed" if row["phase"].startswith("mixed") else row["phase"] for row in rows]
    return StepTimes(
        name=path.stem,
        clock=clock,
        terms={name: np.array([row[name] for row in terms]) for name in terms[0]},
        phase=np.array(phases),
        measured_s=np.array([float(row["time_s"]) for row in rows]),
    )


def read_all(folder: Path) -> dict[str, StepTimes]:
    """Read every file of this form in a folder, by name."""
    files = {}
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8") as file:
            if file.readline().startswith("model,hardware,tp,dtype,phase"):
                files[path.stem] = read(path)
    if not files:
        raise SystemExit(
            f"{folder} has no file with the columns model,hardware,tp,dtype,phase,batch,tokens_per_seq,time_s"
        )
    return files


def _terms(phase: str, batch: float, tokens: float) -> dict[str, float]:
    if phase == "decode":
        return _with(decode_seqs=batch, context_tokens=batch * (tokens + 1))
    if phase == "prefill":
        return _with(
            prefill_seqs=batch,
            prefill_tokens=batch * tokens,
            prefill_pairs=batch * tokens**2,
            prefill_squares=batch * tokens**2,
        )
    new = float(phase.removeprefix("mixed"))
    prompts = max(1.0, new / MIXED_PROMPT)
    chunk = new / prompts
    before = (MIXED_PROMPT - chunk) / 2
    return _with(
        decode_seqs=batch,
        context_tokens=batch * tokens,
        prefill_seqs=prompts,
        prefill_tokens=new,
        prefill_pairs=prompts * chunk * (before + chunk),
        prefill_squares=prompts * chunk**2,
    )


def _with(**given: float) -> dict[str, float]:
    names = ("decode_seqs", "context_tokens", "prefill_seqs", "prefill_tokens", "prefill_pairs", "prefill_squares")
    return {name: given.get(name, 0.0) for name in names}
