"""Fit the efficiencies that jaxsim ships (`jaxsim/operators/efficiency.csv`) to measured step times.

    python benchmarks/fit_efficiency.py FOLDER            # fits on half of the rows, prints rows for efficiency.csv

All files of one hardware are fitted together, so that a parameter means the same for every model. The residual is the
logarithm of predicted over measured time, with a loss that is linear in large ones. Parameters that the data leave
open are held by a weak prior, worth a few rows, at values that are typical of GPUs.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares
from step_times import StepTimes, read_all

from jaxsim.operators import Efficiency, KernelEfficiency, fitted_efficiency

SHARES = (0.05, 1.0)
TIMES = (1e-8, 1e-3)
SPREAD_OF_SHARES, SPREAD_OF_TIMES = 0.2, 0.4
"""Standard deviations of the prior, in logarithms."""
ROW_ERROR = 0.04
"""Error of a row above which it counts less; the unit of residuals."""
PRIOR_ROWS = 60.0

# name: (prior, is a share)
PARAMETERS = {
    "gemm.compute": (0.75, True),
    "gemm.memory": (0.82, True),
    "gemm.overhead_s": (3e-6, False),
    "narrow_gemm.compute": (0.6, True),
    "narrow_gemm.memory": (0.82, True),
    "narrow_gemm.overhead_s": (8e-6, False),  # a kernel more: inputs are quantised
    "experts.compute": (0.55, True),
    "experts.memory": (0.75, True),
    "experts.overhead_s": (1.5e-5, False),
    "prefill_attention.compute": (0.6, True),
    "prefill_attention.overhead_s": (5e-6, False),
    "decode_attention.memory": (0.85, True),
    "decode_attention.overhead_s": (5e-6, False),
    "collective.memory": (0.7, True),
    "collective.overhead_s": (3e-6, False),
}


def parameters_of(files: Sequence[StepTimes]) -> list[str]:
    """The parameters that these files say something about."""
    kinds = {operator.kind for file in files for operator in file.clock.operators}
    return [name for name in PARAMETERS if name.split(".")[0] in kinds]


def as_efficiency(values: dict[str, float], hardware: str) -> Efficiency:
    """Efficiencies with these parameters, and what was not fitted as shipped for `hardware` (or `generic`)."""
    shipped = fitted_efficiency(hardware)
    kernels = {}
    for kind in {name.split(".")[0] for name in values}:
        before: KernelEfficiency = getattr(shipped, kind)
        given = {name.split(".")[1]: value for name, value in values.items() if name.startswith(f"{kind}.")}
        kernels[kind] = KernelEfficiency(
            **{field: given.get(field, getattr(before, field)) for field in ("compute", "memory", "overhead_s")}
        )
    if "decode_attention" in kernels:  # prompts read the KV cache as decodes do
        prefill = kernels["prefill_attention"]
        kernels["prefill_attention"] = KernelEfficiency(
            compute=prefill.compute, memory=kernels["decode_attention"].memory, overhead_s=prefill.overhead_s
        )
    return replace(shipped, **kernels, mixed_layer_s=0.0)


def fit(
    files: Sequence[StepTimes], rows: Callable[[StepTimes], np.ndarray], names: Sequence[str] | None = None
) -> dict[str, float]:
    """Values of the parameters `names` (by default all that matter) from the given rows of files of one hardware."""
    names = list(names or parameters_of(files))
    hardware = files[0].clock.device.name
    prior = np.log([PARAMETERS[name][0] for name in names])
    shares = np.array([PARAMETERS[name][1] for name in names])
    low, high = (np.log(np.where(shares, share, time)) for share, time in zip(SHARES, TIMES, strict=True))
    spread = np.where(shares, SPREAD_OF_SHARES, SPREAD_OF_TIMES)
    chosen = [rows(file) for file in files]

    def residuals(logs: np.ndarray) -> np.ndarray:
        efficiencies = as_efficiency(dict(zip(names, np.exp(logs), strict=True)), hardware)
        errors = [np.log1p(file.errors(efficiencies))[pick] for file, pick in zip(files, chosen, strict=True)]
        held = ROW_ERROR * np.sqrt(PRIOR_ROWS) * (logs - prior) / spread
        return np.concatenate([*errors, held])

    found = least_squares(residuals, prior, bounds=(low, high), loss="soft_l1", f_scale=ROW_ERROR)
    return dict(zip(names, np.exp(found.x), strict=True))


def half(file: StepTimes) -> np.ndarray:
    """A random half of the rows, the same every time."""
    return np.random.default_rng(0).permutation(len(file.measured_s)) % 2 == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of step-time files")
    files = list(read_all(parser.parse_args().folder).values())
    for hardware in sorted({file.clock.device.name for file in files}):
        group = [file for file in files if file.clock.device.name == hardware]
        values = fit(group, half)
        found = as_efficiency(values, hardware)
        for kind in dict.fromkeys(name.split(".")[0] for name in values):
            kernel: KernelEfficiency = getattr(found, kind)
            print(f"{hardware},{kind},{kernel.compute:.3f},{kernel.memory:.3f},{kernel.overhead_s * 1e6:.2f}")


if __name__ == "__main__":
    main()
