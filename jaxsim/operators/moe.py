"""Mixture-of-experts layers."""

import math

from jaxsim.operators.base import Operator
from jaxsim.specs.dtypes import BYTES
from jaxsim.specs.model import ModelSpec
from jaxsim.specs.parallelism import Parallelism


def experts(model: ModelSpec, parallel: Parallelism, *, weights: str, computes_in: str, count: float) -> Operator:
    """The routed experts of one layer: three matrices of each expert that some token is sent to, read once.

    Each of a token's experts takes 6 * hidden * inner operations. Moved are the matrices of touched experts and for
    each row its input, both halves of the inner layer, their product twice (written and read) and the output.
    """
    inner = model.expert_ffn / parallel.expert_slices
    per_row = 6.0 * model.hidden * inner
    return Operator(
        "experts",
        "experts",
        count,
        flops={"expert_rows": per_row},
        bytes={
            "experts_touched": 3.0 * model.hidden * inner * BYTES[weights],
            "expert_rows": (2.0 * model.hidden + 4.0 * inner) * BYTES["bf16"],
        },
        busy_flops={"expert_tile_rows": per_row},
        dtype=computes_in,
    )


def expert_load(model: ModelSpec, parallel: Parallelism, imbalance: float) -> dict[str, float]:
    """What `Sizes` must know of the experts on the busiest device.

    Args:
        model: a model with experts.
        parallel: how it is split; the tokens of all `data` ranks meet at the experts.
        imbalance: rows of the busiest group of experts over the mean; only matters with more than one group.
    """
    share = model.experts_per_token * parallel.data / parallel.expert
    return {
        "experts": model.experts / parallel.expert,
        "log_miss": math.log1p(-model.experts_per_token / model.experts)
        if model.experts_per_token < model.experts
        else -1e9,
        "rows_per_token": share * (imbalance if parallel.expert > 1 else 1.0),
        "expert_ranks": float(parallel.data),
    }


def ranks_per_token(model: ModelSpec, groups: int) -> float:
    """Other groups of experts that a token is sent to, if its experts are drawn at random."""
    return (groups - 1) * (1 - (1 - 1 / groups) ** model.experts_per_token)
