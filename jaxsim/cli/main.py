"""Entry point: finds the command, runs it and turns what went wrong into an exit code."""

import argparse
import os
import sys
from collections.abc import Sequence

from jaxsim._version import __version__
from jaxsim.cli import (
    calibrate,
    capacity,
    compare,
    completion,
    explain,
    init,
    latency,
    optimise,
    presets,
    queueing,
    ratio,
    report,
    run,
    schema,
    sensitivity,
    sweep,
    trace,
    validate,
)
from jaxsim.cli.exit_codes import BAD_INPUT, INTERRUPTED, OK
from jaxsim.cli.parser import Parser
from jaxsim.cli.process import settle

_COMMANDS = (
    run,
    report,
    init,
    presets,
    latency,
    calibrate,
    capacity,
    ratio,
    sweep,
    sensitivity,
    optimise,
    compare,
    queueing,
    explain,
    validate,
    trace,
    schema,
    completion,
)

_EXAMPLE = """\
example:
  jaxsim run examples/chat.yaml --out results

JAXSIM_TRACEBACK=1 in the environment shows where in the program an error arose.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line, the process's own by default; returns the exit code."""
    settle()
    try:
        args = parser().parse_args(argv)
        code = args.execute(args)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt as interrupt:
        print(f"jaxsim: interrupted; {str(interrupt) or 'nothing was kept'}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # `jaxsim ... | head`: nobody reads any more
        return OK
    except (ValueError, OSError) as error:
        if os.environ.get("JAXSIM_TRACEBACK"):
            raise
        print(f"jaxsim: error: {_sentence(error)}", file=sys.stderr)
        return BAD_INPUT


def parser() -> argparse.ArgumentParser:
    """The command line with all its commands."""
    parser = Parser(
        prog="jaxsim",
        description="Simulate LLM serving: TTFT, TPOT, throughput and goodput, and how sure they are.",
        epilog=_EXAMPLE,
    )
    parser.add_argument("--version", action="version", version=f"jaxsim {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_to(commands)
    return parser


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {(error.strerror or str(error)).lower()}"
    return str(error) or type(error).__name__
