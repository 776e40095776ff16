"""What can be made of a run beside its table: a page, pictures, a timeline, metrics."""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from jaxsim.cli.options import check_folder
from jaxsim.cli.progress import progress_bar

if TYPE_CHECKING:
    from jaxsim.analysis.compare import Difference
    from jaxsim.config.schema import Scenario
    from jaxsim.metrics import RequestTable
    from jaxsim.metrics.events import Events
    from jaxsim.result import Result

_OPTIONS = ("report", "plots", "timeline", "metrics")


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """`--report`, `--plots`, `--timeline`, `--metrics`."""
    group = parser.add_argument_group("pictures of the run")
    group.add_argument(
        "--report", metavar="FILE.html", type=Path, help="one page with everything, for a browser, a phone or paper"
    )
    group.add_argument("--plots", metavar="DIR", type=Path, help="its pictures, one file each (needs matplotlib)")
    group.add_argument("--plot-format", choices=("png", "svg", "pdf"), default="png", help="default: png")
    group.add_argument(
        "--timeline", metavar="FILE.json", type=Path, help="one seed as a trace for ui.perfetto.dev or chrome://tracing"
    )
    group.add_argument(
        "--metrics", metavar="FILE", type=Path, help="under the names of vLLM's metrics: .prom, or .json as data"
    )


def wants_outputs(args: argparse.Namespace) -> bool:
    """Whether any of them is asked for."""
    return any(getattr(args, name) is not None for name in _OPTIONS)


def check_outputs(args: argparse.Namespace) -> None:
    """Raise before the work, rather than after it, if one of them could not be written."""
    for name in _OPTIONS:
        path = getattr(args, name)
        if path is None:
            continue
        if name == "plots":
            check_folder(path, "--plots")
            if not find_spec("matplotlib"):
                raise ValueError("--plots needs matplotlib: pip install 'jaxsim-serving[plots]'")
            continue
        if path.is_dir():
            raise ValueError(f"--{name} {path}: is a folder; --{name} needs a file")
        if not path.parent.is_dir():
            raise ValueError(f"--{name} {path}: {path.parent} is no folder")
        check_folder(path.parent, f"--{name}")


MOST_RECORDED = 100_000
"""Requests of a seed that is simulated once more, batch by batch."""


def _recorded(scenario: "Scenario") -> "tuple[RequestTable | None, Events | None]":
    """The first seed with its batches, unless it is too long to be shown."""
    from jaxsim.job import Job
    from jaxsim.simulate import record

    if Job(scenario, None, []).num_requests > MOST_RECORDED:
        return None, None
    return record(scenario)


def _cost_of_outages(scenario: "Scenario") -> "tuple[Difference, ...]":
    from jaxsim.analysis.outages import cost_of_outages, has_outages

    if not has_outages(scenario):
        return ()
    with progress_bar("without the outages") as progress:
        return cost_of_outages(scenario, progress)


def write_outputs(result: "Result", args: argparse.Namespace, scenario: "Scenario | None" = None) -> list[str]:
    """Write what is asked for; returns a line about each.

    Args:
        result: what it is made of.
        args: what is asked for.
        scenario: what was simulated. With it the first seed is simulated once more, batch by batch, for the timeline
            and for what the report shows over time; and if it has outages, all of it without them, for what they cost.
    """
    written = []
    table, events = _recorded(scenario) if scenario is not None and (args.report or args.timeline) else (None, None)
    if result.requests is None and any(getattr(args, name) for name in _OPTIONS if name != "report"):
        raise ValueError("the run kept no table of requests, which --plots, --timeline and --metrics are made of")
    if args.report:
        from jaxsim.report.page import write_report

        if result.requests is None:
            print("jaxsim: note: the run kept no table of requests; the report has its summary only", file=sys.stderr)
        write_report(result, args.report, events, () if scenario is None else _cost_of_outages(scenario))
        written.append(f"{args.report}: the report, for a browser")
    if args.plots:
        files = result.plot.save(args.plots, args.plot_format)
        written.append(f"{args.plots}: {', '.join(path.name for path in files)}")
    if args.timeline:
        from jaxsim.report.timeline import write_timeline

        assert result.requests is not None
        write_timeline(args.timeline, result.requests.block(slice(0, 1)) if table is None else table, events)
        written.append(f"{args.timeline}: seed {result.requests.seed[0]}, for ui.perfetto.dev or chrome://tracing")
    if args.metrics:
        _write_metrics(result, args.metrics)
        written.append(f"{args.metrics}: metrics under vLLM's names")
    return written


def _write_metrics(result: "Result", path: Path) -> None:
    import json

    from jaxsim.metrics.vllm_names import plain
    from jaxsim.result import replacing

    if path.suffix == ".json":
        text = json.dumps(plain(result.vllm_metrics()), indent=2, allow_nan=False) + "\n"
    else:
        text = result.to_prometheus()
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
