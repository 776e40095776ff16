"""`jaxsim optimise`: the best values of some keys under the SLO."""

import argparse
from typing import Any

from jaxsim.cli.answers import Progress, tell
from jaxsim.cli.options import add_answer, add_scenario, add_seeds, scenario_of
from jaxsim.cli.parser import whole_number

_DESCRIPTION = """\
Search ranges and choices of keys for the best objective among the configurations that keep the scenario's slo. All
trials serve the same requests; the best is judged on fresh ones. Needs jaxsim-serving[optimise].
"""

_EXAMPLE = """\
examples:
  jaxsim optimise examples/chat.yaml --vary workload.arrivals.rate=2.0:40.0 --vary scheduler.max_num_seqs=16:256
  jaxsim optimise examples/chat.yaml --objective ttft_s.p99 --vary scheduler.max_num_batched_tokens=256,512,2048
"""


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of `jaxsim`."""
    parser = commands.add_parser(
        "optimise", help="the best values of some keys under the SLO", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    add_scenario(parser)
    parser.add_argument(
        "--vary",
        metavar="KEY=LOW:HIGH|V1,V2,...",
        action="append",
        required=True,
        help="a key and its range (of whole numbers if both ends are), or its choices as YAML; may be repeated",
    )
    parser.add_argument(
        "--objective",
        metavar="NAME",
        default="goodput",
        help="latencies are minimised, the rest maximised, rates per accelerator (default: goodput)",
    )
    parser.add_argument("--trials", metavar="N", type=whole_number, default=64, help="configurations (default: 64)")
    add_seeds(parser)
    add_answer(parser)
    parser.set_defaults(execute=_execute)


def _execute(args: argparse.Namespace) -> int:
    def analyse(progress: Progress) -> Any:
        from jaxsim.analysis.optimise import optimise

        space = dict(_space(text) for text in args.vary)
        return optimise(scenario_of(args), space, objective=args.objective, trials=args.trials, progress=progress)

    return tell(args, analyse, "optimise")


def _space(text: str) -> tuple[str, Any]:
    from jaxsim.config.text import parse_yaml

    key, equals, values = text.partition("=")
    if not (key and equals and values):
        raise ValueError(f"--vary {text}: must be KEY=LOW:HIGH or KEY=V1,V2,...")
    low, colon, high = values.partition(":")
    if colon and "{" not in values:
        ends = parse_yaml(f"[{low}, {high}]", f"--vary {text}")
        if not all(isinstance(end, int | float) for end in ends) or not ends[0] < ends[1]:
            raise ValueError(f"--vary {text}: a range must go from a lower to a higher number, such as 256:4096")
        return key, tuple(ends)
    return key, parse_yaml(f"[{values}]", f"--vary {text}")
