"""Claim: the roofline predicts measured step times within a few per cent, also on a model or parallelism not fitted.

    python benchmarks/bench_step_times.py FOLDER

Prints the mean absolute percentage error by file and phase of (1) efficiencies fitted on one half of the rows, on the
other half; (2) efficiencies fitted on all other files of the hardware only; (3) the shipped efficiencies, on all rows.
"""

import argparse
from pathlib import Path

import numpy as np
from fit_efficiency import as_efficiency, fit, half
from step_times import StepTimes, read_all

from jaxsim.operators import Efficiency

PHASES = ("decode", "prefill", "mixed")


def table(title: str, errors: dict[str, tuple[StepTimes, np.ndarray, np.ndarray]]) -> None:
    """Print mean absolute errors (and mean errors) in per cent by file and phase; of the rows picked."""
    print(f"\n{title}\n{'':28}" + "".join(f"{phase:>18}" for phase in PHASES))
    for name, (file, error, pick) in errors.items():
        cells = []
        for phase in PHASES:
            of = 100 * error[pick & (file.phase == phase)]
            cells.append(f"{np.abs(of).mean():9.1f} ({of.mean():+5.1f})")
        print(f"{name:28}" + "".join(f"{cell:>18}" for cell in cells))


def transfer(others: list[StepTimes]) -> Efficiency:
    """Efficiencies fitted on other files of the same hardware; what they do not show is generic."""
    return as_efficiency(fit(others, half), "generic")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of step-time files (not part of the repository)")
    folder = parser.parse_args().folder
    if folder is None:
        print("needs a folder of step times; results that were found are in benchmarks/LATENCY.md")
        return
    files = read_all(folder)
    by_hardware: dict[str, list[StepTimes]] = {}
    for file in files.values():
        by_hardware.setdefault(file.clock.device.name, []).append(file)
    fitted = {name: as_efficiency(fit(group, half), name) for name, group in by_hardware.items()}

    halves = {name: (file, file.errors(fitted[file.clock.device.name]), ~half(file)) for name, file in files.items()}
    table("Fitted on one half of the rows, all files of a hardware together; errors on the other half", halves)
    held_out = {}
    for name, file in files.items():
        others = [other for other in by_hardware[file.clock.device.name] if other is not file]
        if others:
            held_out[name] = (file, file.errors(transfer(others)), np.ones(len(file.phase), bool))
    table("Fitted on the other files of the hardware; errors on the file left out", held_out)
    shipped = {name: (file, file.errors(), np.ones(len(file.phase), bool)) for name, file in files.items()}
    table("Shipped efficiencies, no cost of mixed iterations; errors on all rows", shipped)


if __name__ == "__main__":
    main()
