"""How the answer of an analysis reaches the user."""

import argparse
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from jaxsim.cli.exit_codes import INCOMPLETE, INTERRUPTED, OK
from jaxsim.cli.options import check_folder, check_tables, of_file
from jaxsim.cli.progress import progress_bar

if TYPE_CHECKING:
    from jaxsim.analysis.answer import Answer

Progress = Callable[[float], None] | None


def tell(args: argparse.Namespace, analyse: Callable[[Progress], "Answer"], label: str) -> int:
    """Analyse and print, and write what `--out` asks for; returns the exit code.

    Args:
        args: with the options of `options.add_answer`.
        analyse: makes the answer; given the progress bar.
        label: of the progress bar.
    """
    check_folder(args.out)
    if args.table == "parquet":
        check_tables("--table parquet")
    with of_file(getattr(args, "scenario", "")), progress_bar(label, wanted=not args.no_progress) as progress:
        answer = analyse(progress)
    written = answer.save(args.out, args.table) if args.out else []
    if args.json:
        print(answer.to_json(), end="")
    else:
        from jaxsim.report.answers import print_answer

        print_answer(answer)
        if written:
            print(f"\nwrote {args.out}{os.sep}: {', '.join(path.name for path in written)}")
    if answer.interrupted:
        where = f"in {args.out}" if args.out else "above"
        print(f"jaxsim: interrupted; what had finished is {where}", file=sys.stderr)
        return INTERRUPTED
    return INCOMPLETE if answer.incomplete else OK
