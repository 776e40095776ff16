"""`jaxsim calibrate`: a latency model fitted to measurements."""

import argparse
from typing import Any

from jaxsim.cli.answers import Progress, tell
from jaxsim.cli.options import add_answer
from jaxsim.cli.parser import natural_number, whole_number

_DESCRIPTION = """\
Fit a latency model to measured iterations or to the requests of a server, and show its error on samples left out, by
kind of iteration. With --out, writes latency.yaml for a scenario (latency: latency.yaml). A dozen iterations, spread
over prompts, decodes and both together, are enough for a roofline of a known model and accelerator.

SAMPLES.csv is known by its columns:
  prefill_tokens, prefill_context, decode_seqs, decode_context, time_s    an iteration
  phase, batch, tokens_per_seq, time_s                                    phase: prefill, decode, mixed512 ...
  prefill_tokens, num_prefill_chunks, sum_chunk_x_kvafter, sum_chunk_sq, num_decodes, sum_decode_kv, step_seconds
  arrival_s, prompt_tokens, output_tokens, first_scheduled_s, first_token_s, finish_s     a request of one instance
With --scenario, SAMPLES.csv holds requests that ran on the scenario's fleet, and only the host's time per iteration is
fitted, on top of its latency.
"""

_EXAMPLE = """\
examples:
  jaxsim calibrate steps.csv
  jaxsim calibrate steps.csv --model llama-3.1-8b --hardware h100-sxm --tp 1 --out fitted
  jaxsim calibrate requests.csv --fit linear --out fitted
  jaxsim calibrate requests.csv --scenario server.yaml --warmup 4 --out fitted
"""


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of `jaxsim`."""
    parser = commands.add_parser(
        "calibrate", help="a latency model fitted to measurements", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    parser.add_argument("samples", metavar="SAMPLES.csv", help="measured iterations, or requests of a server")
    parser.add_argument(
        "--fit",
        choices=("auto", "linear", "roofline", "residual"),
        default="auto",
        help="residual corrects a roofline near the samples and is a table (default: roofline if model and hardware "
        "are known, else linear)",
    )
    parser.add_argument("--model", metavar="NAME|FILE", help="what ran (default: the column model)")
    parser.add_argument("--hardware", metavar="NAME|FILE", help="on what (default: the column hardware)")
    parser.add_argument(
        "--tp", metavar="N", type=whole_number, help="devices that share every layer (default: column tp)"
    )
    parser.add_argument("--dtype", metavar="DTYPE", help="format of the weights (default: the column dtype)")
    parser.add_argument(
        "--max-num-batched-tokens",
        metavar="N",
        type=whole_number,
        default=2048,
        help="of the server whose requests these are (default: 2048)",
    )
    parser.add_argument("--scenario", metavar="SCENARIO", help="fit host_s of its latency to requests of its fleet")
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="change a key of the scenario")
    parser.add_argument(
        "--warmup", metavar="N", type=natural_number, help="with --scenario: requests at the start that do not count"
    )
    add_answer(parser)
    parser.set_defaults(execute=_execute)


def _execute(args: argparse.Namespace) -> int:
    return tell(args, lambda progress: _answer(args, progress), "calibrate")


def _answer(args: argparse.Namespace, progress: Progress) -> Any:
    if args.scenario:
        from jaxsim.analysis.calibrate_host import calibrate_host
        from jaxsim.cli.options import scenario_of
        from jaxsim.workload import Trace

        return calibrate_host(
            scenario_of(args), Trace(path=args.samples), warmup_requests=args.warmup, progress=progress
        )
    from jaxsim.analysis.calibrate import calibrate, roofline_of
    from jaxsim.analysis.sample_files import read_samples

    samples = read_samples(args.samples, max_num_batched_tokens=args.max_num_batched_tokens)
    options = {"model": args.model, "hardware": args.hardware, "tensor_parallel": args.tp, "dtype": args.dtype}
    given = {name: value for name, value in options.items() if value is not None}
    return calibrate(samples, args.fit, roofline_of(samples, **given))
