"""`jaxsim run`: simulate one scenario."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxsim.cli.exit_codes import INCOMPLETE, INTERRUPTED, OK
from jaxsim.cli.options import add_scenario, add_seeds, check_folder, check_tables, named_share, of_file, scenario_of
from jaxsim.cli.parser import whole_number
from jaxsim.cli.progress import progress_bar

if TYPE_CHECKING:
    from jaxsim.analysis.monte_carlo import MonteCarloAnswer
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
  jaxsim run examples/chat.yaml --precision ttft_s.p99=2% --precision slo_attainment=0.5%

exit codes: 0 ok, 2 bad input, 3 simulated but incomplete, 130 interrupted
"""


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of `jaxsim`."""
    parser = commands.add_parser("run", help="simulate a scenario", description=_DESCRIPTION, epilog=_EXAMPLE)
    add_scenario(parser)
    parser.add_argument("--out", metavar="DIR", type=Path, help="write summary, requests and manifest into this folder")
    add_seeds(parser)
    parser.add_argument(
        "--precision",
        metavar="STATISTIC=SHARE",
        type=named_share,
        action="append",
        default=[],
        help="in place of --seeds: cut the warm-up and simulate until the 95%% interval of a statistic is at most this "
        "wide to each side, such as ttft_s.p99=2%%; the cost is told before; may be repeated",
    )
    parser.add_argument(
        "--horizon",
        choices=("auto", "steady", "terminating"),
        default="auto",
        help="with --precision: steady leaves out the warm-up and lengthens runs that drift, terminating measures from "
        "the empty start to the last request (default: steady where the arrivals have a long-run rate)",
    )
    parser.add_argument(
        "--max-requests", metavar="N", type=whole_number, help="with --precision: most requests to simulate"
    )
    parser.add_argument(
        "--requests",
        choices=("csv", "parquet", "none"),
        help="how --out writes the table of requests (default: csv, for up to 5 million requests)",
    )
    parser.add_argument(
        "--devices", metavar="auto|N", type=_devices, default="auto", help="cores or accelerators to use (default: all)"
    )
    parser.add_argument("--no-progress", action="store_true", help="no progress bar (there is none without a terminal)")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON in place of the table")
    parser.set_defaults(execute=_execute)


def _execute(args: argparse.Namespace) -> int:
    _check(args)
    requests: Any = args.requests or "csv"
    result, answer = _simulate_precisely(args) if args.precision else (_simulate(args), None)
    for notice in result.manifest["notices"]:
        print(f"jaxsim: note: {notice}", file=sys.stderr)
    if args.out:
        result.save(args.out, requests=requests)
    if args.json:
        print(json.dumps(result.summary, indent=2, allow_nan=False))
    else:
        from jaxsim.report.terminal import print_summary

        print_summary(result.summary)
    if answer:
        _tell(answer, args)
    if args.out and not args.json:
        _print_written(args.out, requests if result.requests else "none")
    if result.manifest["interrupted"]:
        kept = f"{result.summary['seeds']} of {result.manifest['scenario']['monte_carlo']['seeds']} seeds had finished"
        where = f"they are in {args.out}" if args.out else "they are summarised above"
        print(f"jaxsim: interrupted; {kept}, {where}", file=sys.stderr)
        return INTERRUPTED
    return INCOMPLETE if result.summary["seeds_incomplete"] else OK


def _simulate(args: argparse.Namespace) -> "Result":
    from jaxsim.simulate import run

    scenario = scenario_of(args)
    asked = True if args.requests else None  # by default the table is kept unless it is huge
    keep = asked if args.out and args.requests != "none" else False
    with of_file(args.scenario), progress_bar(scenario.name, wanted=not args.no_progress) as progress:
        return run(scenario, keep_requests=keep, devices=args.devices, progress=progress)


def _simulate_precisely(args: argparse.Namespace) -> "tuple[Result, MonteCarloAnswer]":
    from jaxsim.analysis.monte_carlo import MAX_REQUESTS, monte_carlo

    scenario = scenario_of(args)
    with of_file(args.scenario), progress_bar(scenario.name, wanted=not args.no_progress) as progress:
        answer = monte_carlo(
            scenario,
            dict(args.precision),
            horizon=args.horizon,
            max_requests=args.max_requests or MAX_REQUESTS,
            notify=lambda sentence: print(f"jaxsim: note: {sentence}", file=sys.stderr),
            progress=progress,
        )
    return answer.result, answer


def _tell(answer: "MonteCarloAnswer", args: argparse.Namespace) -> None:
    """What the run found about its own precision."""
    if args.out:
        answer.save(args.out)
    if not args.json:
        from jaxsim.report.answers import print_answer

        print()
        print_answer(answer)


def _devices(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return whole_number(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"must be auto or a whole number, 1 or greater, not {text!r}") from None


def _check(args: argparse.Namespace) -> None:
    """Raise before the simulation, rather than after it, if its results could not be written."""
    if args.out is None and args.requests in ("csv", "parquet"):
        raise ValueError(f"--requests {args.requests} needs --out DIR")
    check_folder(args.out)
    if args.requests == "parquet":
        check_tables("--requests parquet")
    if args.precision and args.seeds:
        raise ValueError("--seeds and --precision exclude each other: --precision finds the number of seeds")
    if not args.precision and (args.max_requests or args.horizon != "auto"):
        raise ValueError("--max-requests and --horizon need --precision STATISTIC=SHARE")


def _print_written(folder: Path, requests: str) -> None:
    print(f"\nwrote {folder}{os.sep}")
    print("  summary.json      statistics with confidence intervals")
    print("  manifest.json     the scenario as run, versions, device, timings")
    if requests != "none":
        print(f"  {f'requests.{requests}':<18}one row a request")
