"""Options that several commands share."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from jaxsim.cli.parser import whole_number

if TYPE_CHECKING:
    from jaxsim.config.schema import Scenario


def add_scenario(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    """`SCENARIO`, which something else may take the place of, and `--set`."""
    parser.add_argument(
        "scenario",
        metavar="SCENARIO",
        nargs="?" if optional else None,
        help="scenario file, YAML or TOML (see: jaxsim schema)",
    )
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


def add_extent(parser: argparse.ArgumentParser, steady: str, when: str = "") -> None:
    """`--horizon` and `--max-requests`.

    Args:
        parser: of a command that decides how much to simulate.
        steady: what it does in a steady state.
        when: what they need, before what they do.
    """
    parser.add_argument(
        "--horizon",
        choices=("auto", "steady", "terminating"),
        default="auto",
        help=f"{when}steady {steady}; terminating measures from the empty start to the last request (default: steady "
        "where the arrivals have a long-run rate)",
    )
    parser.add_argument("--max-requests", metavar="N", type=whole_number, help=f"{when}most requests to simulate")


def add_answer(parser: argparse.ArgumentParser) -> None:
    """How an analysis is told: `--out`, `--table`, `--json`, `--no-progress`."""
    parser.add_argument("--out", metavar="DIR", type=Path, help="write answer, table and picture into this folder")
    parser.add_argument("--table", choices=("csv", "parquet"), default="csv", help="format of the table (default: csv)")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    parser.add_argument("--no-progress", action="store_true", help="no progress bar (there is none without a terminal)")


def add_compile_cache(parser: argparse.ArgumentParser) -> None:
    """`--compile-cache`."""
    parser.add_argument(
        "--compile-cache",
        metavar="DIR",
        type=Path,
        help="keep compiled programs in this folder, so that the next run of like structure need not compile; for one "
        "machine (or machines of one kind), and trusted: the programs in it are run",
    )


def use_compile_cache(args: argparse.Namespace) -> None:
    """Do what `--compile-cache` asks for."""
    if args.compile_cache is None:
        return
    check_folder(args.compile_cache, "--compile-cache")
    import jax

    jax.config.update("jax_compilation_cache_dir", str(args.compile_cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def scenario_of(args: argparse.Namespace) -> "Scenario":
    """The scenario that the options name."""
    from jaxsim.config.io import load_scenario

    seeds = [f"monte_carlo.seeds={args.seeds}"] if getattr(args, "seeds", None) else []
    return load_scenario(args.scenario, [*args.set, *seeds])


@contextmanager
def of_file(name: str) -> Iterator[None]:
    """Scenario errors in the block are about this file, unless they say otherwise."""
    from jaxsim.config.errors import ScenarioError

    try:
        yield
    except ScenarioError as error:
        raise ScenarioError(error.problem, error.key, error.source or name) from None


def check_folder(folder: Path | None, option: str = "--out") -> None:
    """Raise before the work, rather than after it, if its results could not be written into the folder."""
    if folder is None:
        return
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir():
        raise ValueError(f"{option} {folder}: {nearest} is a file; {option} needs a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(f"{option} {folder}: {nearest} is not writable")


def check_tables(option: str) -> None:
    """Raise if Parquet cannot be written."""
    if not (find_spec("pandas") and find_spec("pyarrow")):
        raise ValueError(f"{option} needs pandas and pyarrow: pip install 'jaxsim-serving[tables]'")


def add_statistics(parser: argparse.ArgumentParser, default: str) -> None:
    """`--statistic`."""
    parser.add_argument(
        "--statistic",
        metavar="NAME",
        action="append",
        default=[],
        help=f"such as ttft_s.p99, tpot_s.mean, slo_attainment, goodput; may be repeated (default: {default})",
    )


def share(text: str) -> float:
    """An argument that is a share: `2%` or `0.02`."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must be a share between 0 and 1, such as 2%, not {text!r}")
    return value


def named_share(text: str) -> tuple[str, float]:
    """An argument that is `STATISTIC=SHARE`."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"must be STATISTIC=SHARE, such as ttft_s.p99=2%, not {text!r}")
    return name, share(value)
