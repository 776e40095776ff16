"""`jaxsim latency`: one iteration, operator by operator."""

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxsim.cli.answers import Progress, tell
from jaxsim.cli.options import add_answer
from jaxsim.cli.parser import whole_number

if TYPE_CHECKING:
    from jaxsim.latency.roofline import Roofline

_DESCRIPTION = """\
Price one iteration of a model on an accelerator from first principles: operations, bytes and seconds of every operator,
TTFT and TPOT of a lone request, and what fits in memory. Models and accelerators are named (a wrong name lists those
that are known) or described in a file, which for models may be the config.json of Hugging Face.
"""

_EXAMPLE = """\
examples:
  jaxsim latency --model llama-3.1-8b --hardware h100-sxm --prefill 2048 --decode 64 --context 4096
  jaxsim latency --model mixtral-8x7b --hardware h100-sxm --tp 4 --decode 32 --context 2048 --plot roofline.png
  jaxsim latency --model ./config.json --hardware rtx-4090 --tp 2 --prefill 1024 \\
    --set link.bytes_per_s=18e9 --set link.latency_s=2e-5 --set host_s=1e-3
"""

_SIZES = {
    "--tp": ("tensor_parallel", "devices that share every layer"),
    "--pp": ("pipeline_parallel", "stages that share the layers"),
    "--ep": ("expert_parallel", "groups that share the experts"),
    "--dp": ("data_parallel", "ranks in lock step that share the experts"),
}
_FORMATS = {
    "--dtype": ("dtype", "format of the weights: bf16, fp8, int4 ... (default: as published)"),
    "--kv-dtype": ("kv_dtype", "format of the KV cache: bf16, fp8 or int8 (default: bf16)"),
}


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of `jaxsim`."""
    parser = commands.add_parser(
        "latency", help="one iteration, operator by operator", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    parser.add_argument("--model", metavar="NAME|FILE", required=True, help="such as llama-3.1-8b")
    parser.add_argument("--hardware", metavar="NAME|FILE", required=True, help="such as h100-sxm")
    for option, (field, help) in _SIZES.items():
        parser.add_argument(option, dest=field, metavar="N", type=whole_number, default=1, help=help)
    for option, (field, help) in _FORMATS.items():
        parser.add_argument(option, dest=field, metavar="DTYPE", help=help)
    parser.add_argument(
        "--prefill", metavar="TOKENS", type=whole_number, default=0, help="tokens of a prompt in the batch"
    )
    parser.add_argument("--decode", metavar="N", type=whole_number, default=0, help="decoding requests in the batch")
    parser.add_argument("--context", metavar="TOKENS", type=whole_number, default=0, help="context of each of them")
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="a key of the roofline latency; may be repeated"
    )
    memory = parser.add_argument_group("memory")
    memory.add_argument("--gpu-memory-utilization", metavar="SHARE", type=float, default=0.9, help="default: 0.9")
    memory.add_argument("--block-size", metavar="TOKENS", type=whole_number, default=16, help="default: 16")
    memory.add_argument("--max-num-batched-tokens", metavar="N", type=whole_number, default=2048, help="default: 2048")
    memory.add_argument("--max-num-seqs", metavar="N", type=whole_number, default=256, help="default: 256")
    parser.add_argument("--plot", metavar="FILE", type=Path, help="draw the roofline into this file (needs matplotlib)")
    add_answer(parser)
    parser.set_defaults(execute=_execute, scenario="jaxsim latency")


def _execute(args: argparse.Namespace) -> int:
    if args.plot and not find_spec("matplotlib"):
        raise ValueError("--plot needs matplotlib: pip install 'jaxsim-serving[plots]'")

    def analyse(progress: Progress) -> Any:
        from jaxsim.analysis.iteration import iteration
        from jaxsim.specs import MemoryUse

        answer = iteration(
            _clock(args),
            prefill_tokens=args.prefill,
            decode_seqs=args.decode,
            context_tokens=args.context,
            use=MemoryUse(
                gpu_memory_utilization=args.gpu_memory_utilization,
                max_num_batched_tokens=args.max_num_batched_tokens,
                max_num_seqs=args.max_num_seqs,
            ),
            block_size=args.block_size,
        )
        if args.plot:
            figure: Any = answer.plot().figure
            figure.savefig(args.plot, dpi=150)
        return answer

    return tell(args, analyse, "latency")


def _clock(args: argparse.Namespace) -> "Roofline":
    from jaxsim.config.overrides import Override
    from jaxsim.config.schema import READER
    from jaxsim.config.text import parse_yaml
    from jaxsim.latency.roofline import Roofline

    data = {"kind": "roofline", "model": args.model, "hardware": args.hardware}
    for field, _ in (*_SIZES.values(), *_FORMATS.values()):
        if (value := getattr(args, field)) is not None:
            data[field] = value
    for text in args.set:
        key, equals, value = text.partition("=")
        if not equals or not all(key.split(".")):
            raise ValueError(f"--set {text}: must be KEY=VALUE, such as host_s=1e-3")
        Override(text, tuple(key.split(".")), parse_yaml(value, f"--set {text}")).apply(data)
    return READER.read(Roofline, data)
