"""`jaxsim run`: simulate one scenario."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxsim.cli.answers import Progress
from jaxsim.cli.exit_codes import INCOMPLETE, INTERRUPTED, OK
from jaxsim.cli.options import (
    add_compile_cache,
    add_extent,
    add_scenario,
    add_seeds,
    check_folder,
    check_tables,
    named_share,
    of_file,
    scenario_of,
    use_compile_cache,
)
from jaxsim.cli.outputs import add_outputs, check_outputs, wants_outputs, write_outputs
from jaxsim.cli.parser import whole_number
from jaxsim.cli.progress import progress_bar
from jaxsim.cli.quick import add_quick, check_quick, print_sections, quick_name, quick_scenario_of

if TYPE_CHECKING:
    from jaxsim.analysis.monte_carlo import MonteCarloAnswer
    from jaxsim.analysis.sensitivity import SensitivityAnswer
    from jaxsim.config.schema import Scenario
    from jaxsim.result import Result

_DESCRIPTION = """\
Simulate a scenario request by request and print its latencies, throughput and goodput with confidence intervals.
Nothing is written without --out.
"""

_EXAMPLE = """\
examples:
  jaxsim run --model llama-3.1-8b --hardware h100-sxm --rate 6
  jaxsim run examples/chat.yaml
  jaxsim run examples/chat.yaml --report report.html --timeline trace.json
  jaxsim run examples/chat.yaml --seeds 32 --out results --requests parquet
  jaxsim run examples/chat.yaml --set workload.arrivals.rate=6 --set scheduler.max_num_seqs=64
  jaxsim run examples/chat.yaml --precision ttft_s.p99=2% --precision slo_attainment=0.5%
  jaxsim run examples/chat.yaml --sensitivity-to-clock
  jaxsim run examples/chat.yaml --percentile p99.9
  jaxsim run examples/chat.yaml --seeds 100000 --out results --resume      # goes on after it was killed
  jaxsim run examples/chat.yaml --coordinator 10.0.0.1:9000 --num-processes 2 --process-id 0

exit codes: 0 ok, 2 bad input, 3 simulated but incomplete, 130 interrupted
"""


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of `jaxsim`."""
    parser = commands.add_parser("run", help="simulate a scenario", description=_DESCRIPTION, epilog=_EXAMPLE)
    add_scenario(parser, optional=True)
    add_quick(parser)
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
        "--percentile",
        metavar="P",
        type=_percentile,
        action="append",
        default=[],
        help="a percentile of every latency to report beside the usual ones, such as p99.9; may be repeated",
    )
    add_extent(parser, "leaves out the warm-up and lengthens runs that drift", when="with --precision: ")
    parser.add_argument(
        "--requests",
        choices=("csv", "parquet", "none"),
        help="how --out writes the table of requests (default: csv, for up to 5 million requests)",
    )
    parser.add_argument(
        "--devices", metavar="auto|N", type=_devices, default="auto", help="cores or accelerators to use (default: all)"
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run that --out holds unfinished, or begin it; the results are those of an uninterrupted "
        "run, to the byte",
    )
    parser.add_argument(
        "--sensitivity-to-clock",
        action="store_true",
        help="say, too, by how many percent P99 TTFT moves if every iteration takes 1%% longer: two more runs of the "
        "scenario (jaxsim sensitivity does it for other statistics)",
    )
    add_compile_cache(parser)
    add_outputs(parser)
    processes = parser.add_argument_group(
        "several processes, on one machine or many",
        "Start the same command in each, with its own --process-id. They share the seeds; process 0 gathers, writes "
        "and prints what one process would. Their folders need not be shared.",
    )
    processes.add_argument(
        "--coordinator",
        metavar="HOST:PORT",
        type=_address,
        help="where process 0 listens, at this address only, and the others find it",
    )
    processes.add_argument("--num-processes", metavar="N", type=whole_number, help="how many there are")
    processes.add_argument("--process-id", metavar="I", type=_number, help="which of them this is, from 0")
    parser.add_argument("--no-progress", action="store_true", help="no progress bar (there is none without a terminal)")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON in place of the table")
    parser.set_defaults(execute=_execute)


def _execute(args: argparse.Namespace) -> int:
    _check(args)
    use_compile_cache(args)
    if args.coordinator:
        from jaxsim.hosts import join

        join(args.coordinator, args.num_processes, args.process_id)
    scenario, sections = quick_scenario_of(args) if args.scenario is None else (scenario_of(args), None)
    if sections and not args.json and not args.process_id:
        print_sections(sections)
    simulate = _simulate_precisely if args.precision else _simulate
    with (
        of_file(args.scenario or quick_name(args)),
        progress_bar(scenario.name, wanted=not args.no_progress) as progress,
    ):
        result, answer = simulate(scenario, args, progress)
    clock = _sensitivity_to_clock(scenario, result, args)
    if args.process_id:
        print(f"jaxsim: process {args.process_id} is done; the results are with process 0", file=sys.stderr)
    else:
        _tell(result, answer, clock, sections, args)
        _picture(result, args, scenario)
    if result.manifest["interrupted"]:
        return INTERRUPTED
    return INCOMPLETE if result.summary["seeds_incomplete"] else OK


def _simulate(scenario: "Scenario", args: argparse.Namespace, progress: Progress) -> "tuple[Result, None]":
    from jaxsim.metrics.summary import LATENCIES
    from jaxsim.simulate import run

    # with --resume and --coordinator the table is read back from --out
    keep = wants_outputs(args) and not (args.resume or args.coordinator) and _is_small(scenario)
    result = run(
        scenario,
        keep_requests=keep,
        devices=args.devices,
        progress=progress,
        out=args.out,
        requests_format=args.requests,
        resume=args.resume,
        percentiles=dict.fromkeys(LATENCIES, args.percentile),
    )
    return result, None


def _is_small(scenario: "Scenario") -> bool:
    """Whether the table of requests may be kept in memory."""
    from jaxsim.simulate import KEPT_REQUESTS

    return getattr(scenario.workload, "num_requests", 1) * scenario.monte_carlo.seeds <= KEPT_REQUESTS


def _picture(result: "Result", args: argparse.Namespace, scenario: "Scenario") -> None:
    """Make the page, pictures, timeline and metrics that were asked for."""
    if not wants_outputs(args):
        return
    if result.requests is None and args.out and result.manifest.get("requests", "none") != "none":
        from jaxsim.result import check_finished, load_result

        check_finished(args.out)
        result = load_result(args.out)
    for line in write_outputs(result, args, scenario):
        print(f"wrote {line}", file=sys.stderr if args.json else sys.stdout)


def _simulate_precisely(
    scenario: "Scenario", args: argparse.Namespace, progress: Progress
) -> "tuple[Result, MonteCarloAnswer]":
    from jaxsim.analysis.monte_carlo import MAX_REQUESTS, monte_carlo

    answer = monte_carlo(
        scenario,
        dict(args.precision),
        horizon=args.horizon,
        max_requests=args.max_requests or MAX_REQUESTS,
        notify=lambda sentence: print(f"jaxsim: note: {sentence}", file=sys.stderr),
        progress=progress,
    )
    return answer.result, answer


def _sensitivity_to_clock(
    scenario: "Scenario", result: "Result", args: argparse.Namespace
) -> "SensitivityAnswer | None":
    """By how much P99 TTFT moves with the clock, if it was asked for and the run is whole."""
    if not args.sensitivity_to_clock or result.manifest["interrupted"]:
        return None
    from jaxsim.analysis.sensitivity import CLOCK, sensitivity

    with progress_bar("a slower clock", wanted=not args.no_progress) as progress:
        return sensitivity(scenario, [CLOCK], progress=progress)


def _tell(
    result: "Result",
    answer: "MonteCarloAnswer | None",
    clock: "SensitivityAnswer | None",
    sections: dict[str, Any] | None,
    args: argparse.Namespace,
) -> None:
    """What the run found, and where it is."""
    for notice in result.manifest["notices"]:
        print(f"jaxsim: note: {notice}", file=sys.stderr)
    written: Any = result.manifest.get("requests", "none")
    if answer and args.out:  # the runs on the way to the answer wrote nothing
        written = args.requests or "csv" if result.requests else "none"
        result.save(args.out, written)
        answer.save(args.out)
    if clock and args.out:
        clock.save(args.out)
    if args.json:
        embedded: dict[str, Any] = {"scenario": sections} if sections else {}
        if clock:
            embedded["sensitivity_to_clock"] = clock.rows[0]
        print(json.dumps({**result.summary, **embedded}, indent=2, allow_nan=False))
    else:
        from jaxsim.report.terminal import print_summary

        print_summary(result.summary)
        if answer:
            from jaxsim.report.answers import print_answer

            print()
            print_answer(answer)
        if clock:
            sentence = clock.sentences[1]
            print(f"\n{sentence[0].upper()}{sentence[1:]}")
        if args.out:
            _print_written(args.out, written)
    if result.manifest["interrupted"]:
        kept = f"{result.summary['seeds']} of {result.manifest['scenario']['monte_carlo']['seeds']} seeds had finished"
        where = f"they are in {args.out}; --resume goes on" if args.out else "they are summarised above"
        print(f"jaxsim: interrupted; {kept}, {where}", file=sys.stderr)


def _devices(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return whole_number(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"must be auto or a whole number, 1 or greater, not {text!r}") from None


def _percentile(text: str) -> str:
    from jaxsim.specs.slo import quantile_of

    if quantile_of(text) is None:
        raise argparse.ArgumentTypeError(f"must be a percentile, such as p99.9, not {text!r}")
    return text


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isdecimal() and 0 < int(port) < 65536):
        raise argparse.ArgumentTypeError(f"must be HOST:PORT, such as 127.0.0.1:9000, not {text!r}")
    return text


def _number(text: str) -> int:
    return 0 if text == "0" else whole_number(text)


def _check(args: argparse.Namespace) -> None:
    """Raise before the simulation, rather than after it, if its results could not be written."""
    check_quick(args)
    if args.out is None and args.requests in ("csv", "parquet"):
        raise ValueError(f"--requests {args.requests} needs --out DIR")
    if args.out is None and args.resume:
        raise ValueError("--resume needs --out DIR, the folder of the run to go on with")
    if wants_outputs(args) and (args.resume or args.coordinator) and (args.out is None or args.requests == "none"):
        why = "--resume" if args.resume else "--coordinator"
        raise ValueError(f"with {why}, --report, --plots, --timeline and --metrics need --out DIR and its requests")
    if args.requests == "parquet":
        check_tables("--requests parquet")
    if args.sensitivity_to_clock and (args.resume or args.coordinator):
        raise ValueError(
            "--resume and --coordinator cannot be used with --sensitivity-to-clock; see jaxsim sensitivity"
        )
    if args.precision and args.percentile:
        raise ValueError("--percentile cannot be used with --precision, which reports what it is asked for")
    if args.precision and args.seeds:
        raise ValueError("--seeds and --precision exclude each other: --precision finds the number of seeds")
    if args.precision and (args.resume or args.coordinator):
        raise ValueError("--resume and --coordinator cannot be used with --precision; give --seeds in its place")
    if not args.precision and (args.max_requests or args.horizon != "auto"):
        raise ValueError("--max-requests and --horizon need --precision STATISTIC=SHARE")
    together = (args.coordinator, args.num_processes, args.process_id)
    if any(option is not None for option in together) and None in together:
        raise ValueError("--coordinator, --num-processes and --process-id must be given together")
    if args.coordinator and args.process_id >= args.num_processes:
        raise ValueError(
            f"--process-id must be less than --num-processes ({args.num_processes}), not {args.process_id}"
        )
    if not args.process_id:
        check_folder(args.out)
        check_outputs(args)
        if args.precision and args.out:
            from jaxsim.result import check_finished

            check_finished(args.out)


def _print_written(folder: Path, requests: str) -> None:
    print(f"\nwrote {folder}{os.sep}")
    print("  summary.json      statistics with confidence intervals")
    print("  manifest.json     the scenario as run, versions, device, timings")
    if requests != "none":
        print(f"  {f'requests.{requests}':<18}one row a request")
