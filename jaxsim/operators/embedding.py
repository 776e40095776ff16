"""The two ends of a model: embedding and LM head."""

from jaxsim.operators.base import Operator
from jaxsim.operators.elementwise import elementwise
from jaxsim.operators.gemm import gemm
from jaxsim.specs.model import ModelSpec


def embedding(model: ModelSpec) -> Operator:
    """A row of the table for each new token: read and written."""
    return elementwise("embedding", 2.0 * model.hidden, count=1.0)


def lm_head(model: ModelSpec, tensor_parallel: int) -> Operator:
    """Logits of the last token of each request in the batch, in 16 bits; the vocabulary is split over the devices."""
    return gemm(
        "LM head", model.hidden, model.vocab / tensor_parallel, weights="bf16", computes_in="bf16", rows="sequences"
    )
