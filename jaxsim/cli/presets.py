"""`jaxsim presets`: workloads to start from."""

import argparse
import json
from typing import Any

from jaxsim.cli.exit_codes import OK

_DESCRIPTION = """\
List typical workloads, or show one as YAML. A scenario may name one in place of its workload,
    workload: {preset: chat, rate: 6}
and change any of its keys beside it.
"""

_EXAMPLE = """\
examples:
  jaxsim presets
  jaxsim presets chat
  jaxsim init --preset chat
"""


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of `jaxsim`."""
    parser = commands.add_parser(
        "presets", help="list typical workloads, or show one", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    parser.add_argument("preset", metavar="PRESET", nargs="?", help="show this one (default: list all)")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.set_defaults(execute=_execute)


def _execute(args: argparse.Namespace) -> int:
    from jaxsim.config.presets import PRESETS, chosen
    from jaxsim.config.text import dump_yaml

    if args.preset is None:
        if args.json:
            print(json.dumps({name: preset.summary for name, preset in PRESETS.items()}, indent=2))
        else:
            width = max(map(len, PRESETS))
            print("".join(f"{name:<{width}}  {preset.summary}\n" for name, preset in PRESETS.items()), end="")
        return OK
    preset = chosen(args.preset)
    sections = {"workload": dict(preset.workload), "slo": dict(preset.slo)}
    if args.json:
        print(json.dumps({"summary": preset.summary, "source": preset.source, **sections}, indent=2))
    else:
        print(f"# {preset.summary}\n# lengths: {preset.source}\n{dump_yaml(sections)}", end="")
    return OK
