"""Writes steps.csv, the bundled step samples: a dozen iterations of a server, invented, drawn with seed 0.

usage: python examples/data/make_steps.py

The server is 15 % slower than its roofline, its host adds 1.2 ms to every iteration, and each is measured with 3 % of
noise. The iterations are those worth measuring on a real server.
"""

import csv
from pathlib import Path

import numpy as np

from jaxsim.analysis.calibrate import roofline_of
from jaxsim.analysis.sample_files import read_samples

ITERATIONS = [
    *(("prefill", 1, tokens) for tokens in (64, 512, 2048, 8192)),
    ("prefill", 4, 2048),
    *(("decode", batch, tokens) for batch, tokens in ((1, 1024), (8, 4096), (32, 1024), (64, 4096), (256, 512))),
    *((f"mixed{tokens}", batch, 2048) for tokens, batch in ((512, 32), (2048, 64))),
]
HEADER = ("model", "hardware", "tp", "dtype", "phase", "batch", "tokens_per_seq", "time_s")
SERVER = ("llama-3.1-8b", "h100-sxm", 1, "bf16")


def write(path: Path, times_s: np.ndarray) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows((*SERVER, *row, f"{time_s:.6f}") for row, time_s in zip(ITERATIONS, times_s, strict=True))


path = Path(__file__).with_name("steps.csv")
write(path, np.ones(len(ITERATIONS)))
samples = read_samples(str(path))
clock = roofline_of(samples)
noise = np.random.default_rng(0).normal(1.0, 0.03, len(ITERATIONS))
write(path, noise * (1.15 * samples.predicted_s(clock.seconds) + 1.2e-3))
