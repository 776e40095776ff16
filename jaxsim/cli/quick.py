"""`jaxsim run` without a file: the options that name a model, an accelerator and a load."""

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from jaxsim.cli.parser import positive_number, whole_number

if TYPE_CHECKING:
    from jaxsim.config.schema import Scenario

_OPTIONS: Mapping[str, tuple[str, str, Callable[[str], Any], str]] = {
    "--model": ("model", "NAME|FILE", str, "such as llama-3.1-8b (jaxsim latency says what is known)"),
    "--hardware": ("hardware", "NAME|FILE", str, "such as h100-sxm"),
    "--rate": ("rate", "R", positive_number, "requests per second (default: that of the workload)"),
    "--workload": ("workload", "PRESET", str, "lengths, burstiness and SLO (see: jaxsim presets; default: chat)"),
    "--prompt-tokens": ("prompt_tokens", "N|{...}", str, "tokens of every prompt, or a distribution as in a scenario"),
    "--output-tokens": ("output_tokens", "N|{...}", str, "tokens of every output, or a distribution"),
    "--num-requests": ("num_requests", "N", whole_number, "requests of a seed (default: 1000)"),
    "--instances": ("instances", "N", whole_number, "equal instances (default: 1)"),
    "--tensor-parallel": (
        "tensor_parallel",
        "N",
        whole_number,
        "devices of an instance (default: the fewest that hold the model)",
    ),
    "--dtype": ("dtype", "DTYPE", str, "format of the weights: bf16, fp8, int4 ... (default: as published)"),
    "--kv-dtype": ("kv_dtype", "DTYPE", str, "format of the KV cache: bf16, fp8 or int8 (default: bf16)"),
}


def add_quick(parser: argparse.ArgumentParser) -> None:
    """The options that take the place of a scenario file."""
    group = parser.add_argument_group(
        "without a file",
        "In place of SCENARIO: a workload of jaxsim presets on a named model and accelerator. The scenario is printed.",
    )
    for option, (name, metavar, type, help) in _OPTIONS.items():
        group.add_argument(option, dest=name, metavar=metavar, type=type, help=help)


def check_quick(args: argparse.Namespace) -> None:
    """Raise unless there is either a file or what takes its place."""
    given = [option for option, (name, *_) in _OPTIONS.items() if getattr(args, name) is not None]
    if args.scenario is not None and given:
        advice = "change the file's keys with --set, such as workload.arrivals.rate=6"
        raise ValueError(f"{given[0]} is for runs without a scenario file; {advice}, or leave {args.scenario} out")
    if args.scenario is None and (args.model is None or args.hardware is None):
        missing = " and ".join(f"--{name}" for name in ("model", "hardware") if getattr(args, name) is None)
        raise ValueError(
            f"jaxsim run needs {missing}, such as --model llama-3.1-8b --hardware h100-sxm --rate 6"
            if given
            else "jaxsim run needs a scenario file (jaxsim init writes one), or --model and --hardware, such as "
            "--model llama-3.1-8b --hardware h100-sxm --rate 6"
        )


def quick_name(args: argparse.Namespace) -> str:
    """What errors say the scenario comes from."""
    return f"--model {args.model} --hardware {args.hardware}"


def quick_scenario_of(args: argparse.Namespace) -> "tuple[Scenario, dict[str, Any]]":
    """The scenario that the options describe, and what a file that says the same would hold.

    Raises:
        ScenarioError: something in it is not valid; the message names the option or key.
    """
    from jaxsim.config.errors import ScenarioError
    from jaxsim.config.io import parse_with
    from jaxsim.config.quick import quick_sections
    from jaxsim.config.text import parse_yaml

    choices = {name: value for name, *_ in _OPTIONS.values() if (value := getattr(args, name)) is not None}
    for name in ("prompt_tokens", "output_tokens"):
        if name in choices:
            choices[name] = parse_yaml(choices[name], f"--{name.replace('_', '-')}")
    if args.seeds:
        choices["seeds"] = args.seeds
    try:
        sections = quick_sections(**choices)
    except ScenarioError as error:
        raise ScenarioError(error.problem, f"--{error.key.replace('_', '-')}" if error.key else "") from None
    return parse_with(sections, args.set, quick_name(args)), sections


def print_sections(sections: dict[str, Any]) -> None:
    """Print a scenario as the file that says the same."""
    from jaxsim.config.text import dump_yaml

    print("# The scenario; kept in a file, it is run by: jaxsim run FILE")
    print(dump_yaml(sections))
    sys.stdout.flush()
