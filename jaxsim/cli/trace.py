"""`jaxsim trace`: look into a trace, fit a synthetic workload to it, convert it."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxsim.cli.answers import Progress, tell
from jaxsim.cli.exit_codes import OK
from jaxsim.cli.options import add_answer, check_folder
from jaxsim.cli.parser import Parser, whole_number

if TYPE_CHECKING:
    from jaxsim.workload import Trace

_DESCRIPTION = """\
Work with recorded requests: jaxsim's own CSV, Azure, Mooncake, BurstGPT, Vidur and Splitwise traces, reports of vLLM
bench, GuideLLM, inference-perf, AIPerf and GenAI-Perf, OpenTelemetry spans, lists of lengths, or any CSV, JSON Lines or
Parquet table whose columns you name. The format is seen from the file.
"""

_EXAMPLE = """\
examples:
  jaxsim trace describe requests.csv
  jaxsim trace fit requests.csv --out fitted
  jaxsim trace convert access.jsonl --columns arrival_s=time,prompt_tokens=usage.in,output_tokens=usage.out > trace.csv
"""

_DESCRIBE = """\
Rows, rate, burstiness, percentiles of lengths, how close textbook distributions come (KS), shared prefixes.
"""

_FIT = """\
Write a synthetic workload, as YAML for a scenario, that reproduces a trace: rate, burstiness, lengths and their
correlation. Prints the YAML; with --out, writes workload.yaml and how it compares with
the trace.
"""

_CONVERT = """\
Write a trace in jaxsim's own format, in order of arrival.
"""

_EXAMPLES = {
    "describe": ("requests.csv", "mooncake.jsonl --json"),
    "fit": ("requests.csv", "mooncake.jsonl --spread-ticks --out fitted"),
    "convert": ("azure.csv > trace.csv", "requests.parquet --out trace.csv"),
}


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of `jaxsim`."""
    parser = commands.add_parser(
        "trace", help="describe, fit and convert recorded requests", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True, parser_class=Parser)
    for name, help, description, execute in (
        ("describe", "statistics of a trace", _DESCRIBE, _describe),
        ("fit", "a synthetic workload that reproduces a trace", _FIT, _fit),
        ("convert", "a trace in jaxsim's own format", _CONVERT, _convert),
    ):
        examples = "examples:\n" + "".join(f"  jaxsim trace {name} {example}\n" for example in _EXAMPLES[name])
        action = actions.add_parser(name, help=help, description=description, epilog=examples)
        add_reading(action, "file", "FILE", "the trace")
        action.add_argument(
            "--spread-ticks", action="store_true", help="move requests recorded at one tick of a coarse clock apart"
        )
        action.add_argument("--limit", metavar="N", type=whole_number, help="only the first N requests")
        if name == "convert":
            action.add_argument("--to", choices=("jaxsim_csv",), default="jaxsim_csv", help="format to write")
            action.add_argument("--out", metavar="FILE", type=Path, help="file to write (default: standard output)")
        else:
            add_answer(action)
        action.set_defaults(execute=execute)


def add_reading(parser: argparse.ArgumentParser, name: str, metavar: str, help: str) -> None:
    """A recorded file and how it is read."""
    parser.add_argument(name, metavar=metavar, help=help)
    parser.add_argument("--format", metavar="NAME", default="auto", help="its format (default: seen from the file)")
    parser.add_argument(
        "--columns",
        metavar="NAME=COLUMN,...",
        type=_columns,
        help="for any other table: arrival_s=time,prompt_tokens=in,output_tokens=out",
    )
    parser.add_argument(
        "--on-invalid", choices=("error", "skip"), default="error", help="what becomes of invalid rows (default: error)"
    )


def trace_of(args: argparse.Namespace, path: str, **more: Any) -> "Trace":
    """The file that the options of `add_reading` are about."""
    from jaxsim.workload import Trace

    return Trace(path=path, format=args.format, columns=args.columns, on_invalid=args.on_invalid, **more)


def _trace(args: argparse.Namespace) -> "Trace":
    return trace_of(args, args.file, spread_ticks=args.spread_ticks, limit=args.limit)


def _columns(text: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in text.split(",")]
    if not all(name and equals and column for name, equals, column in pairs):
        raise argparse.ArgumentTypeError(f"must be NAME=COLUMN,NAME=COLUMN..., not {text!r}")
    return {name: column for name, _, column in pairs}


def _describe(args: argparse.Namespace) -> int:
    def analyse(progress: Progress) -> Any:
        from jaxsim.analysis.trace_describe import describe_trace

        return describe_trace(_trace(args))

    return tell(args, analyse, "trace")


def _fit(args: argparse.Namespace) -> int:
    def analyse(progress: Progress) -> Any:
        from jaxsim.analysis.trace_fit import fit_trace

        return fit_trace(_trace(args))

    if args.out or args.json:
        return tell(args, analyse, "fit")
    answer = analyse(None)
    for warning in answer.warnings:
        print(f"jaxsim: note: {warning}", file=sys.stderr)
    print(answer.to_yaml(), end="")
    return OK


def _convert(args: argparse.Namespace) -> int:
    from jaxsim.result import replacing
    from jaxsim.workload.trace.jaxsim_csv import write

    if args.out:
        check_folder(args.out.parent)
    rows = _trace(args).read()
    notices = [*rows.notices]
    if rows.prefix_blocks is not None:
        notices.append(f"{args.file}: the blocks of shared prefixes are not part of the format and were left out")
    for notice in notices:
        print(f"jaxsim: note: {notice}", file=sys.stderr)
    if args.out is None:
        write(rows, sys.stdout)
        return OK
    with replacing(args.out) as path, path.open("w", encoding="utf-8", newline="") as file:
        write(rows, file)
    print(f"wrote {os.fspath(args.out)}: {len(rows.row):,} requests")
    return OK
