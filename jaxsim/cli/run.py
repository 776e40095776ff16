"""`jaxsim run`: simulate one scenario."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from jaxsim.cli.exit_codes import INCOMPLETE, OK
from jaxsim.cli.parser import whole_number

_DESCRIPTION = """\
Simulate a scenario request by request and print its latencies, throughput and goodput with confidence intervals.
Nothing is written without --out.
"""

_EXAMPLE = """\
examples:
  jaxsim run examples/chat.yaml
  jaxsim run examples/chat.yaml --seeds 32 --out results --requests parquet
  jaxsim run examples/chat.yaml --set workload.arrivals.rate=6 --set scheduler.max_num_seqs=64

exit codes: 0 ok, 2 bad input, 3 simulated but incomplete, 130 interrupted
"""

_FILES = {
    "summary.json": "statistics with confidence intervals",
    "requests.csv": "one row a request",
    "requests.parquet": "one row a request",
    "manifest.json": "the scenario as run, versions, device, timings",
}


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of `jaxsim`."""
    parser = commands.add_parser("run", help="simulate a scenario", description=_DESCRIPTION, epilog=_EXAMPLE)
    parser.add_argument("scenario", metavar="SCENARIO", help="scenario file, YAML or TOML (see: jaxsim schema)")
    parser.add_argument("--out", metavar="DIR", type=Path, help="write summary, requests and manifest into this folder")
    parser.add_argument(
        "--seeds", metavar="N", type=whole_number, help="independent replications, in place of monte_carlo.seeds"
    )
    parser.add_argument(
        "--requests",
        choices=("csv", "parquet", "none"),
        default="csv",
        help="how --out writes the table of requests (default: csv)",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="change a key of the scenario, such as cluster.instances.0.count=4; may be repeated; "
        "with one group of instances, scheduler.KEY, kv_cache.KEY and latency.KEY are enough",
    )
    parser.add_argument(
        "--devices", metavar="auto|N", type=_devices, default="auto", help="devices to simulate on (default: auto)"
    )
    parser.add_argument("--no-progress", action="store_true", help="no progress bar (there is none without a terminal)")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON in place of the table")
    parser.set_defaults(execute=_execute)


def _execute(args: argparse.Namespace) -> int:
    if args.out:
        _check_folder(args.out)
    from jaxsim.config.io import load_scenario
    from jaxsim.report.terminal import print_summary
    from jaxsim.simulate import run

    seeds = [f"monte_carlo.seeds={args.seeds}"] if args.seeds else []
    result = run(
        load_scenario(args.scenario, [*args.set, *seeds]),
        progress=sys.stderr.isatty() and not args.no_progress,
        out=args.out,
        requests_format=args.requests,
        devices=args.devices,
    )
    if args.json:
        print(json.dumps(result.summary, indent=2))
    else:
        print_summary(result)
        _print_written(args.out)
    return INCOMPLETE if result.summary["seeds_incomplete"] else OK


def _devices(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return whole_number(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"must be auto or a whole number, 1 or greater, not {text!r}") from None


def _check_folder(folder: Path) -> None:
    """Raise before the simulation, rather than after it, if results cannot be written to `folder`."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise ValueError(f"--out {folder}: {nearest} is a file; --out needs a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(f"--out {folder}: {nearest} is not writable")


def _print_written(folder: Path | None) -> None:
    if folder:
        print(f"\nwrote {folder}{os.sep}")
        for name, content in _FILES.items():
            if (folder / name).exists():
                print(f"  {name:<18}{content}")
