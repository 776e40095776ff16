"""Claim: a kernel profile and one fitted constant predict the times of every request of a measured server.

    python benchmarks/bench_measured_server.py FOLDER [--out PICTURE.png]

FOLDER has `requests.csv` (the requests of a real vLLM server, with the times it recorded), `engine.json` (its
settings) and `profile/` (kernel times of one layer on the same machine). Kernels give the time of an iteration but for
what the host adds: that is one constant of the machine, fitted to half of the requests. Prints the errors of TTFT, TPOT
and end-to-end time, what each part of the model is worth, and how far a linear clock comes that only the first half of
the log told (no profile); draws running and waiting requests over measured ones.
"""

import argparse
import csv
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxsim.analysis.calibrate import calibrate
from jaxsim.analysis.sample_files import read_samples
from jaxsim.config.io import parse_scenario
from jaxsim.simulate import run
from jaxsim.specs import named_model
from jaxsim.workload import Requests

WARMUP = 4
"""Requests left out of the statistics: 1-2 % of the run."""

UNQUEUED_S = 0.5
"""TTFT below which a request of this server did not wait for a seat: the others took seconds."""

ROWS = {
    "TTFT mean": ("ttft", np.mean, 4),
    "TTFT p50": ("ttft", np.median, None),
    "TTFT p99": ("ttft", lambda x: np.percentile(x, 99), 4),
    "not queued, mean": ("alone", np.mean, None),
    "TPOT mean": ("tpot", np.mean, 2),
    "TPOT p50": ("tpot", np.median, None),
    "TPOT p99": ("tpot", lambda x: np.percentile(x, 99), 4),
    "end to end mean": ("e2e", np.mean, None),
    "end to end p99": ("e2e", lambda x: np.percentile(x, 99), 2),
}
"""Statistic: of what, how, and the error that is asked for, in per cent."""


class Times(NamedTuple):
    """When things happened to each request, seconds from the first arrival."""

    arrival: np.ndarray
    scheduled: np.ndarray
    first_token: np.ndarray
    finish: np.ndarray
    outputs: np.ndarray

    @property
    def metrics(self) -> dict[str, np.ndarray]:
        """TTFT, TPOT and end-to-end time of each request, without the first ones."""
        ttft, decode = self.first_token - self.arrival, self.finish - self.first_token
        values = {"ttft": ttft, "tpot": decode / (self.outputs - 1), "e2e": self.finish - self.arrival}
        return {name: value[WARMUP:] for name, value in values.items()}

    def unqueued(self) -> np.ndarray:
        """The requests that were not kept waiting for a seat."""
        return self.metrics["ttft"] < UNQUEUED_S


class Server:
    """A measured server: its requests, its settings, and what jaxsim makes of them."""

    def __init__(self, folder: Path) -> None:
        self.profile = folder / "profile"
        self.settings = json.loads((folder / "engine.json").read_text())["engine_kwargs"]
        self.layers = named_model(self.settings["model"].split("/")[-1].lower()).layers
        self.timeseries = _columns(folder / "timeseries.csv")
        self.log = folder / "requests.csv"
        columns = _columns(self.log)
        names = ("arrival_s", "first_scheduled_s", "first_token_s", "finish_s", "output_tokens")
        self.measured = Times(*(columns[name] for name in names))
        self.requests = Requests.from_arrays(
            **{name: columns[name] for name in ("arrival_s", "prompt_tokens", "output_tokens")}
        )

    def simulate(self, host_s: float, *, profile: Path | None = None, asynchronous: bool = True) -> Times:
        """The same requests on jaxsim's server, its clock from a kernel profile."""
        clock = {"path": str(profile or self.profile), "layers": self.layers, "host_s": host_s}
        return self.simulate_with({"kind": "kernel_profile"} | clock, asynchronous)

    def simulate_from_log(self) -> Times:
        """The same requests, with a linear clock that only the first half of the log told."""
        samples = read_samples(str(self.log))
        first_half = np.arange(len(samples)) < len(samples) / 2
        return self.simulate_with({"kind": "linear", **calibrate(samples[first_half]).fitted.parameters})

    def simulate_with(self, latency: dict[str, Any], asynchronous: bool = True) -> Times:
        """The same requests on a server with this clock."""
        scheduler = {name: self.settings[name] for name in ("max_num_seqs", "max_num_batched_tokens")}
        instance = {
            "latency": latency,
            "scheduler": {"kind": "vllm_v1", "async_scheduling": asynchronous} | scheduler,
        }
        scenario = parse_scenario({"workload": _UNUSED, "cluster": {"instances": [instance]}})
        table = run(scenario, requests=self.requests).requests
        columns = ("arrival_s", "first_scheduled_s", "first_token_s", "finish_s", "output_tokens")
        return Times(*(getattr(table, name)[0] for name in columns))

    def fit_host_s(self) -> float:
        """The constant with which every other request has the measured mean TPOT, by the secant method."""
        goal = self.measured.metrics["tpot"][::2].mean()

        def excess(host_s: float) -> float:
            return float(self.simulate(host_s).metrics["tpot"][::2].mean() - goal)

        low, high = (0.0, excess(0.0)), (1e-3, excess(1e-3))
        while abs(high[1]) > 1e-3 * goal:
            slope = (high[1] - low[1]) / (high[0] - low[0])
            low, high = high, (high[0] - high[1] / slope, 0.0)
            high = (high[0], excess(high[0]))
        return high[0]


_UNUSED = {
    "kind": "synthetic",
    "num_requests": 1,
    "arrivals": {"kind": "constant", "rate": 1.0},
    "prompt_tokens": {"kind": "fixed", "value": 1},
    "output_tokens": {"kind": "fixed", "value": 1},
}


def _columns(path: Path) -> dict[str, np.ndarray]:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def errors(simulated: Times, measured: Times) -> dict[str, float]:
    """Per cent by row of the table."""
    ours, theirs = (
        {**times.metrics, "alone": times.metrics["ttft"][measured.unqueued()]} for times in (simulated, measured)
    )
    return {name: 100 * (float(how(ours[of]) / how(theirs[of])) - 1) for name, (of, how, _) in ROWS.items()}


def without_mixed(profile: Path, folder: Path) -> Path:
    """A copy of a profile whose attention has no rows of chunks beside decodes: the model then adds the two."""
    copy = Path(shutil.copytree(profile, folder / "additive"))
    header, *rows = (profile / "attention.csv").read_text().splitlines()
    alone = [row for row in rows if row.split(",")[0] == "0" or row.split(",")[2] == "0"]
    (copy / "attention.csv").write_text("\n".join([header, *alone]) + "\n")
    return copy


def draw(server: Server, simulated: Times, path: Path) -> None:
    """Running and waiting requests over time."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    at = np.linspace(0, server.measured.finish.max(), 1000)[:, None]
    figure, axis = pyplot.subplots(figsize=(8, 4))
    for name, colour in (("running", "C0"), ("waiting", "C1")):
        axis.plot(server.timeseries["t"], server.timeseries[name], "o", color=colour, ms=3, label=f"{name}, measured")
        start, end = ("scheduled", "finish") if name == "running" else ("arrival", "scheduled")
        count = ((getattr(simulated, start) <= at) & (at < getattr(simulated, end))).sum(axis=1)
        axis.plot(at, count, color=colour, label=f"{name}, simulated")
    axis.set(xlabel="seconds", ylabel="requests")
    axis.legend(loc="upper right", bbox_to_anchor=(1, 0.85))
    figure.savefig(path, dpi=120, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="measured server (not part of the repository)")
    parser.add_argument("--out", type=Path, help="where to draw running and waiting requests")
    args = parser.parse_args()
    if args.folder is None:
        print("needs the folder of a measured server; results that were found are in benchmarks/LATENCY.md")
        return
    server = Server(args.folder)
    host_s = server.fit_host_s()
    fitted = server.simulate(host_s)
    with tempfile.TemporaryDirectory() as temporary:
        additive = without_mixed(server.profile, Path(temporary))
        variants = {
            "fitted": fitted,
            "no host time": server.simulate(0.0),
            "synchronous": server.simulate(host_s, asynchronous=False),
            "attention added": server.simulate(host_s, profile=additive),
            "all three": server.simulate(0.0, profile=additive, asynchronous=False),
            "from its log": server.simulate_from_log(),
        }
    found = {name: errors(times, server.measured) for name, times in variants.items()}
    print(f"host_s fitted to every other request: {1e3 * host_s:.2f} ms per iteration\n")
    print(f"{'errors in per cent':18}{'asked':>8}" + "".join(f"{name:>18}" for name in variants))
    for row, (_, _, asked) in ROWS.items():
        print(f"{row:18}{asked or '':>8}" + "".join(f"{error[row]:+18.1f}" for error in found.values()))
    if args.out:
        draw(server, fitted, args.out)


if __name__ == "__main__":
    main()
