"""Claim: a dozen measured iterations calibrate a clock to 6 % on dense models, and a table predicts between its points.

    python benchmarks/bench_calibrate.py FOLDER

FOLDER has files of step times (`phase,batch,tokens_per_seq,time_s`). Prints, in per cent, mean absolute errors:
(1) of clocks fitted to 12 iterations, on all others; the roofline starts from generic efficiencies;
(2) of the rule for mixed iterations of a table without them, against adding both times and taking the longer one;
(3) of a table made of every other decode batch and context, on those left out.
"""

import argparse
import csv
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from jaxsim.analysis.calibrate import calibrate, roofline_of
from jaxsim.analysis.fit_latency import Fit, LinearFit, ResidualFit, RooflineFit
from jaxsim.analysis.sample_files import read_samples
from jaxsim.analysis.samples import Samples
from jaxsim.latency import Table
from jaxsim.latency.gridding import evaluate
from jaxsim.operators import fitted_efficiency

DOZEN = [("prefill", 1, 64), ("prefill", 1, 512), ("prefill", 1, 2048), ("prefill", 4, 2048), ("prefill", 1, 8192)]
DOZEN += [("decode", 1, 1024), ("decode", 8, 4096), ("decode", 32, 1024), ("decode", 64, 4096), ("decode", 256, 512)]
DOZEN += [("mixed512", 32, 2048), ("mixed2048", 64, 2048)]
KINDS = ("decode", "prefill", "mixed")


class StepTimes:
    """One file of step times, as rows and as samples."""

    def __init__(self, path: Path) -> None:
        self.name = path.stem
        self.samples = read_samples(str(path))
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        self.phase = np.array([row["phase"] for row in rows])
        self.batch = np.array([int(row["batch"]) for row in rows])
        self.tokens = np.array([int(row["tokens_per_seq"]) for row in rows])
        self.kind = np.array([phase.rstrip("0123456789") for phase in self.phase])

    @property
    def dozen(self) -> np.ndarray:
        """The iterations of `DOZEN`."""
        keys = zip(self.phase, self.batch, self.tokens, strict=True)
        return np.array([(str(phase), int(batch), int(tokens)) in DOZEN for phase, batch, tokens in keys])


def of_a_dozen(file: StepTimes, samples: Samples) -> None:
    """Print the errors of clocks fitted to a dozen iterations."""
    shipped = roofline_of(samples)
    assert shipped is not None
    untold = RooflineFit(replace(shipped, efficiency=fitted_efficiency("generic")))
    fits: dict[str, Fit] = {"linear": LinearFit(), "roofline": untold, "roofline + residual": ResidualFit(untold)}
    for name, fit in fits.items():
        error = np.abs(samples.errors(fit.fit(samples[file.dozen]).seconds))[~file.dozen]
        of_kind = [error[file.kind[~file.dozen] == kind].mean() for kind in KINDS]
        cells = "".join(f"{100 * value:9.1f}" for value in (error.mean(), *of_kind))
        left_out = "" if name == "linear" else f"{100 * left_out_error(samples, file.dozen):9.1f}"
        print(f"{file.name:26}{name:22}{cells}{left_out if name == 'roofline' else ''}")


def left_out_error(samples: Samples, rows: np.ndarray) -> float:
    """What `jaxsim calibrate` says of its own error, from the dozen alone."""
    return calibrate(samples[rows], "roofline").error


def table_of(file: StepTimes, rows: np.ndarray, folder: str) -> Table:
    """A table of lone prompts and of decodes."""
    path = Path(folder) / f"{file.name}.csv"
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["prefill_tokens", "decode_seqs", "decode_context", "time_s"])
        for row in np.flatnonzero(rows):
            batch, tokens, time_s = file.batch[row], file.tokens[row], file.samples.time_s[row]
            writer.writerow([tokens, 0, 0, time_s] if file.kind[row] == "prefill" else [0, batch, tokens + 1, time_s])
    return Table(path=str(path))


def of_tables(file: StepTimes, folder: str) -> None:
    """Print the errors of the rule for mixed iterations and of interpolation."""
    alone = (file.kind == "decode") | ((file.kind == "prefill") & (file.batch == 1))
    ((_, times),) = table_of(file, alone, folder).parts(linear=True)
    mixed = file.kind == "mixed"
    chunk = np.array([float(phase.removeprefix("mixed")) for phase in file.phase[mixed]])
    seqs, context = file.batch[mixed].astype(float), file.tokens[mixed].astype(float)
    at = {"decode_seqs": seqs, "decode_context": context}
    decodes = evaluate(times.decodes, at)
    rule = evaluate(times.prompts, {"new_tokens": chunk + seqs}) + evaluate(times.attention, at)
    chunks = evaluate(times.prompts, {"new_tokens": chunk})
    measured = file.samples.time_s[mixed]
    found = {"this rule": rule, "adding": chunks + decodes, "longer": np.maximum(chunks, decodes)}
    for name, predicted in found.items():
        error = 100 * (predicted / measured - 1)
        print(f"{file.name:26}mixed, {name:20}{np.abs(error).mean():9.1f} ({error.mean():+.1f})")
    batches, contexts = (np.unique(values[file.kind == "decode"]) for values in (file.batch, file.tokens))
    kept = np.isin(file.batch, batches[::2]) & np.isin(file.tokens, contexts[::2])
    ((_, times),) = table_of(file, alone & (kept | (file.kind == "prefill")), folder).parts(linear=True)
    out = (file.kind == "decode") & ~kept
    at = {"decode_seqs": file.batch[out].astype(float), "decode_context": file.tokens[out] + 1.0}
    error = 100 * (evaluate(times.decodes, at) / file.samples.time_s[out] - 1)
    print(f"{file.name:26}decodes between points     {np.abs(error).mean():9.1f} ({error.mean():+.1f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of step-time files (not part of the repository)")
    folder = parser.parse_args().folder
    if folder is None:
        print("needs a folder of step times; results that were found are in benchmarks/LATENCY.md")
        return
    paths = [
        path for path in sorted(folder.glob("*.csv")) if path.read_text().startswith("model,hardware,tp,dtype,phase")
    ]
    files = [StepTimes(path) for path in paths]
    print(f"{'fitted to 12 iterations':48}" + "".join(f"{kind:>9}" for kind in ("all", *KINDS, "told")))
    for file in files:
        of_a_dozen(file, file.samples)
    print()
    with tempfile.TemporaryDirectory() as temporary:
        for file in files:
            of_tables(file, temporary)


if __name__ == "__main__":
    main()
