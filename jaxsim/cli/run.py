"""`jaxsim run`: simulate one scenario."""

import argparse
import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxsim.cli.exit_codes import INCOMPLETE, INTERRUPTED, OK
from jaxsim.cli.parser import whole_number
from jaxsim.cli.progress import progress_bar

if TYPE_CHECKING:
    from jaxsim.result import Result

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
        help="how --out writes the table of requests (default: csv, for up to 5 million requests)",
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
        "--devices", metavar="auto|N", type=_devices, default="auto", help="cores or accelerators to use (default: all)"
    )
    parser.add_argument("--no-progress", action="store_true", help="no progress bar (there is none without a terminal)")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON in place of the table")
    parser.set_defaults(execute=_execute)


def _execute(args: argparse.Namespace) -> int:
    _check_output(args.out, args.requests)
    requests: Any = args.requests or "csv"
    result = _simulate(args)
    for notice in result.manifest["notices"]:
        print(f"jaxsim: note: {notice}", file=sys.stderr)
    if args.out:
        result.save(args.out, requests=requests)
    if args.json:
        print(json.dumps(result.summary, indent=2, allow_nan=False))
    else:
        from jaxsim.report.terminal import print_summary

        print_summary(result.summary)
        if args.out:
            _print_written(args.out, requests if result.requests else "none")
    if result.manifest["interrupted"]:
        kept = f"{result.summary['seeds']} of {result.manifest['scenario']['monte_carlo']['seeds']} seeds had finished"
        where = f"they are in {args.out}" if args.out else "they are summarised above"
        print(f"jaxsim: interrupted; {kept}, {where}", file=sys.stderr)
        return INTERRUPTED
    return INCOMPLETE if result.summary["seeds_incomplete"] else OK


def _simulate(args: argparse.Namespace) -> "Result":
    from jaxsim.config.errors import ScenarioError
    from jaxsim.config.io import load_scenario
    from jaxsim.simulate import run

    seeds = [f"monte_carlo.seeds={args.seeds}"] if args.seeds else []
    scenario = load_scenario(args.scenario, [*args.set, *seeds])
    asked = True if args.requests else None  # by default the table is kept unless it is huge
    keep = asked if args.out and args.requests != "none" else False
    try:
        with progress_bar(scenario.name, wanted=not args.no_progress) as progress:
            return run(scenario, keep_requests=keep, devices=args.devices, progress=progress)
    except ScenarioError as error:
        raise ScenarioError(error.problem, error.key, error.source or args.scenario) from None


def _devices(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return whole_number(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"must be auto or a whole number, 1 or greater, not {text!r}") from None


def _check_output(folder: Path | None, requests: str | None) -> None:
    """Raise before the simulation, rather than after it, if its results could not be written."""
    if folder is None:
        if requests in ("csv", "parquet"):
            raise ValueError(f"--requests {requests} needs --out DIR")
        return
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir():
        raise ValueError(f"--out {folder}: {nearest} is a file; --out needs a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(f"--out {folder}: {nearest} is not writable")
    if requests == "parquet" and not (find_spec("pandas") and find_spec("pyarrow")):
        raise ValueError("--requests parquet needs pandas and pyarrow: pip install 'jaxsim-serving[tables]'")


def _print_written(folder: Path, requests: str) -> None:
    print(f"\nwrote {folder}{os.sep}")
    print("  summary.json      statistics with confidence intervals")
    print("  manifest.json     the scenario as run, versions, device, timings")
    if requests != "none":
        print(f"  {f'requests.{requests}':<18}one row a request")
