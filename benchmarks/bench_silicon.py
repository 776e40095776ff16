"""Claim: rooflines and closed-loop clients predict the mean TTFT and TPOT of benchmarked servers from their settings.

    python benchmarks/bench_silicon.py FILE.csv [--set h100-70b ...] [--parts] [--rows]

FILE.csv has one benchmark run a row (`model_path,system,backend,gemm_quant_mode,moe_quant_mode,isl,osl,batch_size,
tp_size,attention_dp_size,moe_ep_size,silicon_ttft_ms,silicon_tpot_ms`, as AIConfigurator publishes them). Nothing is
fitted: what the file does not say is equal in all rows of one benchmark (`INFERENCE_MAX`, `OTHER`). `--parts` says what
each assumption is worth.
"""

import argparse
import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxsim.config.io import parse_scenario
from jaxsim.config.schema import Scenario
from jaxsim.simulate import run_each
from jaxsim.specs import named_model

LONGEST_S = 5.0
"""Longest TTFT of a row that counts: beyond, the server had too little memory for its clients."""

Row = Mapping[str, str]


@dataclass(frozen=True)
class Assumed:
    """What is not in the file, equal in all rows of one benchmark.

    Attributes:
        shortest: lengths are uniform from this share of the nominal ones to the nominal ones.
        requests_per_client: requests of a run over clients. All clients start together, and all requests count.
        spare_clients: clients beyond the seats of the server.
        max_num_batched_tokens: of the scheduler.
        async_scheduling: of the scheduler.
        kv_dtype: format of the KV cache.
        host_s: seconds that the host adds to an iteration.
        front_end_s: seconds from when a client sends a request until the scheduler sees it.
        mixed_layer_s: seconds a layer takes longer in an iteration with prompts and decodes; None: as shipped.
        seeds: draws of the lengths, over which means are taken.
    """

    shortest: float = 0.8
    requests_per_client: int = 10
    spare_clients: int = 0
    max_num_batched_tokens: int = 8192
    async_scheduling: bool = True
    kv_dtype: str = "bf16"
    host_s: float = 0.0
    front_end_s: float = 0.0
    mixed_layer_s: float | None = None
    seeds: int = 4


INFERENCE_MAX = Assumed()
"""The published scripts of InferenceMAX: 10 requests a client, `--random-range-ratio 0.8`, vLLM with
`--max-num-seqs` the clients, `--max-num-batched-tokens 8192`, `--async-scheduling` and no prefix caching. The bf16 KV
cache is seen in the two rows whose clients do not fit (an fp8 cache would hold them)."""

OTHER = Assumed(spare_clients=1, host_s=1e-3)
"""The client of the TensorRT-LLM rows on H100 is not published. TTFT grows there as output tokens x TPOT / clients,
the time until the next seat is free: one client always waits for it. The host takes 1 ms an iteration:
what TPOT of up to 16 clients lacks, on 1 to 8 devices alike."""


class Rows(NamedTuple):
    """Rows of one kind."""

    columns: Mapping[str, str]
    """What their columns hold."""
    assumed: Assumed
    asked: bool = False
    """Whether the issue asks for an error."""


SETS = {
    "h100-70b": Rows({"system": "h100_sxm", "model_path": "Llama-3.1-70B"}, INFERENCE_MAX, asked=True),
    "h100-8b": Rows({"system": "h100_sxm", "model_path": "Llama-3.1-8B"}, OTHER, asked=True),
    "b200-70b": Rows({"system": "b200_sxm", "model_path": "Llama-3.1-70B"}, INFERENCE_MAX),
    "h100-gpt-oss": Rows({"system": "h100_sxm", "backend": "vllm", "model_path": "gpt-oss"}, INFERENCE_MAX),
    "b200-gpt-oss": Rows({"system": "b200_sxm", "model_path": "gpt-oss"}, INFERENCE_MAX),
    "b200-deepseek": Rows({"system": "b200_sxm", "model_path": "DeepSeek"}, INFERENCE_MAX),
}

PARTS: dict[str, dict[str, Any]] = {
    "nominal lengths": {"shortest": 1.0},
    "synchronous scheduling": {"async_scheduling": False},
    "batches of 2048 tokens": {"max_num_batched_tokens": 2048},
    "4.7 ms of front end": {"front_end_s": 4.7e-3},
    "no mixed time": {"mixed_layer_s": 0.0},
    "1 ms of host time": {"host_s": 1e-3},
    "20 requests a client": {"requests_per_client": 20},
    "fp8 KV cache": {"kv_dtype": "fp8"},
}
"""Assumptions changed one at a time."""


def scenario(row: Row, assumed: Assumed) -> Scenario:
    """The benchmark run of a row."""
    ranks = int(float(row["attention_dp_size"] or 1))
    clients = max(1, int(float(row["batch_size"])) // ranks)
    efficiency = {} if assumed.mixed_layer_s is None else {"efficiency": {"mixed_layer_s": assumed.mixed_layer_s}}
    model = re.sub("-(instruct|nvfp4)$", "", row["model_path"].split("/")[-1].lower())
    latency: dict[str, Any] = {
        "kind": "roofline",
        "model": model,
        "hardware": row["system"],
        "tensor_parallel": int(float(row["tp_size"])),
        "data_parallel": ranks,
        "expert_parallel": int(float(row["moe_ep_size"])),
        "dtype": _dtype(row["gemm_quant_mode"]),
        "kv_dtype": assumed.kv_dtype,
        "host_s": assumed.host_s,
        **efficiency,
    }
    if named_model(model).experts:
        latency["expert_dtype"] = _dtype(row["moe_quant_mode"])
        if "gpt-oss" in model:  # published with experts in 4 bits and all else in 16, whatever is said
            latency["dtype"], latency["expert_dtype"] = "bf16", "mxfp4"
    scheduler = {
        "kind": "vllm_v1",
        "async_scheduling": assumed.async_scheduling,
        "max_num_seqs": clients - assumed.spare_clients,
        "max_num_batched_tokens": assumed.max_num_batched_tokens,
    }
    workload = {
        "kind": "synthetic",
        "num_requests": assumed.requests_per_client * clients,
        # the scheduler sees a client's next request this much after it was sent; `simulate` adds it to TTFT
        "arrivals": {"kind": "closed_loop", "concurrency": clients, "think_time_s": assumed.front_end_s},
        "prompt_tokens": _lengths(row["isl"], assumed),
        "output_tokens": _lengths(row["osl"], assumed),
    }
    cluster = {"instances": [{"latency": latency, "scheduler": scheduler, "kv_cache": {"gpu_memory_utilization": 0.9}}]}
    return parse_scenario({"workload": workload, "cluster": cluster, "monte_carlo": {"seeds": assumed.seeds}})


def _dtype(mode: str) -> str:
    return {"": "bf16", "nvfp4": "fp4", "fp8_block": "fp8"}.get(mode, mode)


def _lengths(nominal: str, assumed: Assumed) -> dict[str, Any]:
    tokens = int(float(nominal))
    return {"kind": "uniform", "min": int(assumed.shortest * tokens), "max": tokens}


def read(path: Path, columns: Mapping[str, str]) -> list[Row]:
    """The rows of a set that are one server each and count."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["mode"] == "agg"]
    rows = [row for row in rows if all(part in row[column] for column, part in columns.items())]
    return [row for row in rows if float(row["silicon_ttft_ms"]) < 1e3 * LONGEST_S]


def simulate(runs: Sequence[tuple[Row, Assumed]]) -> np.ndarray:
    """Mean TTFT and TPOT of every run, seconds: `[runs, 2]`."""
    results = run_each([scenario(row, assumed) for row, assumed in runs])
    means = [[result.summary[name]["mean"] for name in ("ttft_s", "tpot_s")] for result in results]
    return np.array(means) + [[assumed.front_end_s, 0.0] for _, assumed in runs]


def measured(rows: Sequence[Row]) -> np.ndarray:
    """What was measured, as `simulate` returns it."""
    return np.array([[1e-3 * float(row[f"silicon_{name}_ms"]) for name in ("ttft", "tpot")] for row in rows])


def line(name: str, errors: np.ndarray) -> str:
    """Errors of one group of rows, per cent."""
    ttft, tpot = 100 * errors.T
    return (
        f"{name:24}{len(ttft):>5}{np.median(np.abs(ttft)):>9.1f}{np.mean(np.abs(ttft)):>8.1f}{ttft.mean():>+9.1f}"
        f"{np.median(np.abs(tpot)):>9.1f}{np.mean(np.abs(tpot)):>8.1f}{tpot.mean():>+9.1f}"
    )


def report(name: str, path: Path, args: argparse.Namespace) -> None:
    """Simulate one set and print its errors."""
    columns, assumed, _ = SETS[name]
    assumed = replace(assumed, seeds=args.seeds)
    rows = read(path, columns)
    variants = {name: assumed}
    if args.parts:
        variants |= {part: replace(assumed, **change) for part, change in PARTS.items()}
    found = simulate([(row, variant) for variant in variants.values() for row in rows])
    errors = dict(zip(variants, np.split(found, len(variants)), strict=True))
    errors = {variant: times / measured(rows) - 1 for variant, times in errors.items()}
    for variant, of_rows in errors.items():
        print(line(variant, of_rows), flush=True)
    devices = np.array([float(row["tp_size"]) * float(row["attention_dp_size"] or 1) for row in rows])
    for count in np.unique(devices):
        print(line(f"  {count:.0f} devices", errors[name][devices == count]), flush=True)
    if args.rows:
        for row, (ttft, tpot), (ttft_error, tpot_error) in zip(rows, measured(rows), errors[name], strict=True):
            what = f"{row['isl']}/{row['osl']} tokens, {row['batch_size']} clients, tp {row['tp_size']}"
            print(f"  {what:44}TTFT {ttft:8.4f} s {ttft_error:+7.1%}  TPOT {1e3 * tpot:7.2f} ms {tpot_error:+7.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", help="benchmark runs (not part of the repository)")
    parser.add_argument("--set", nargs="+", choices=SETS, default=[name for name in SETS if SETS[name].asked])
    parser.add_argument("--seeds", type=int, default=2, help="draws of the lengths, over which means are taken")
    parser.add_argument("--rows", action="store_true", help="print every row")
    parser.add_argument("--parts", action="store_true", help="change the assumptions one at a time")
    args = parser.parse_args()
    if args.file is None:
        print("needs a file of benchmark runs; results that were found are in benchmarks/LATENCY.md")
        return
    print(f"{'':29}{'TTFT':>26}{'TPOT':>26}")
    print(f"{'errors in per cent':24}{'rows':>5}" + 2 * f"{'median':>9}{'mean':>8}{'signed':>9}")
    for name in args.set:
        report(name, args.file, args)


if __name__ == "__main__":
    main()
