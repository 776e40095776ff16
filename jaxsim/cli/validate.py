"""`jaxsim validate`: measured requests against simulated ones."""

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jaxsim.cli.answers import Progress, tell
from jaxsim.cli.options import add_answer, add_scenario, check_folder, scenario_of
from jaxsim.cli.parser import natural_number
from jaxsim.cli.trace import add_reading, trace_of

_DESCRIPTION = """\
How far off is a scenario? Replays measured requests on its fleet and shows the error of mean, P50, P90 and P99 of TTFT,
TPOT, ITL and E2E. MEASURED is a CSV of requests (arrival_s, prompt_tokens, output_tokens, first_token_s, finish_s; also
queued_s), a report of vllm bench serve, GuideLLM, inference-perf, AIPerf or GenAI-Perf, or any table with --columns.
With a result of vllm bench that has only statistics, the scenario's own workload is simulated.
"""

_EXAMPLE = """\
examples:
  jaxsim validate scenario.yaml requests.csv
  jaxsim validate scenario.yaml bench.json --warmup 50 --plot overlay.png --out validation
"""


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of `jaxsim`."""
    parser = commands.add_parser(
        "validate", help="measured requests against simulated ones", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    add_scenario(parser)
    add_reading(parser, "measured", "MEASURED", "measured requests, or the result of a benchmark")
    parser.add_argument(
        "--arrival-stamp",
        choices=("client", "queued"),
        default="client",
        help="what counts as arrival: sent by the client, or queued_s, taken in by the engine (default: client)",
    )
    parser.add_argument(
        "--warmup",
        metavar="N",
        type=natural_number,
        help="requests at the start that are not compared (default: monte_carlo.warmup_requests)",
    )
    parser.add_argument("--plot", metavar="FILE", type=Path, help="write the distributions over each other (png, svg)")
    add_answer(parser)
    parser.set_defaults(execute=_execute)


def _execute(args: argparse.Namespace) -> int:
    if args.plot:
        check_folder(args.plot.parent)
        if not find_spec("matplotlib"):
            raise ValueError("--plot needs matplotlib: pip install 'jaxsim-serving[plots]'")

    def analyse(progress: Progress) -> Any:
        from jaxsim.analysis.validate import validate

        answer = validate(
            scenario_of(args),
            trace_of(args, args.measured),
            arrival_stamp=args.arrival_stamp,
            warmup_requests=args.warmup,
            progress=progress,
        )
        if args.plot:
            figure: Any = answer.plot().figure
            figure.savefig(args.plot, dpi=150)
        return answer

    return tell(args, analyse, "validate")
