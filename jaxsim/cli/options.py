"""Options that several commands share."""

import argparse
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from jaxsim.cli.parser import whole_number

if TYPE_CHECKING:
    from jaxsim.config.schema import Scenario


def add_scenario(parser: argparse.ArgumentParser) -> None:
    """`SCENARIO` and `--set`."""
    parser.add_argument("scenario", metavar="SCENARIO", help="scenario file, YAML or TOML (see: jaxsim schema)")
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="change a key of the scenario, such as cluster.instances.0.count=4; may be repeated; "
        "with one group of instances, scheduler.KEY, kv_cache.KEY and latency.KEY are enough",
    )


def add_seeds(parser: argparse.ArgumentParser) -> None:
    """`--seeds`."""
    parser.add_argument(
        "--seeds", metavar="N", type=whole_number, help="independent replications, in place of monte_carlo.seeds"
    )


def add_answer(parser: argparse.ArgumentParser) -> None:
    """How an analysis is told: `--out`, `--table`, `--json`, `--no-progress`."""
    parser.add_argument("--out", metavar="DIR", type=Path, help="write answer, table and picture into this folder")
    parser.add_argument("--table", choices=("csv", "parquet"), default="csv", help="format of the table (default: csv)")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    parser.add_argument("--no-progress", action="store_true", help="no progress bar (there is none without a terminal)")


def scenario_of(args: argparse.Namespace) -> "Scenario":
    """The scenario that the options name."""
    from jaxsim.config.io import load_scenario

    seeds = [f"monte_carlo.seeds={args.seeds}"] if getattr(args, "seeds", None) else []
    return load_scenario(args.scenario, [*args.set, *seeds])


def check_folder(folder: Path | None) -> None:
    """Raise before the work, rather than after it, if its results could not be written into `--out`."""
    if folder is None:
        return
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir():
        raise ValueError(f"--out {folder}: {nearest} is a file; --out needs a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(f"--out {folder}: {nearest} is not writable")


def check_tables(option: str) -> None:
    """Raise if Parquet cannot be written."""
    if not (find_spec("pandas") and find_spec("pyarrow")):
        raise ValueError(f"{option} needs pandas and pyarrow: pip install 'jaxsim-serving[tables]'")
