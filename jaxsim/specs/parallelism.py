"""How one engine instance is spread over devices."""

from jaxsim._component import check, component
from jaxsim.specs.model import ModelSpec


@component
class Parallelism:
    """Ways of splitting a model.

    Attributes:
        tensor: devices that share every layer.
        pipeline: stages that share the layers.
        expert: groups that share the experts of a layer, each expert whole in one group; divides `tensor * data`.
        data: ranks in lock step whose attention is replicated and whose experts are shared.
    """

    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    data: int = 1

    def __post_init__(self) -> None:
        for field in ("tensor", "pipeline", "expert", "data"):
            check(self, field, lambda value: value >= 1, "1 or greater")

    @property
    def devices(self) -> int:
        """Devices of the instance."""
        return self.tensor * self.pipeline * self.data

    @property
    def expert_slices(self) -> int:
        """Devices that share each expert."""
        return self.tensor * self.data // self.expert

    def check(self, model: ModelSpec) -> None:
        """Raise a ValueError that names the parameter if `model` cannot be split this way."""
        if model.heads % self.tensor:
            raise ValueError(f"tensor_parallel must divide the {model.heads} heads of {model.name}, not {self.tensor}")
        if self.pipeline > model.layers:
            raise ValueError(
                f"pipeline_parallel must be at most the {model.layers} layers of {model.name}, not {self.pipeline}"
            )
        if (self.tensor * self.data) % self.expert:
            raise ValueError(
                f"expert_parallel must divide tensor_parallel * data_parallel ({self.tensor * self.data}), "
                f"not {self.expert}"
            )
        if self.expert > 1 and not model.experts:
            raise ValueError(f"expert_parallel must be 1: {model.name} has no experts")
        if model.experts and model.experts % self.expert:
            raise ValueError(
                f"expert_parallel must divide the {model.experts} experts of {model.name}, not {self.expert}"
            )
        if self.data > 1 and not model.experts:
            raise ValueError(
                f"data_parallel must be 1: ranks of {model.name} share nothing; use several instances (count) instead"
            )

    def weight_bytes(self, model: ModelSpec, dtype: str | None = None, expert_dtype: str | None = None) -> float:
        """Bytes of weights on one device of the fullest pipeline stage; arguments as of `ModelSpec.weight_bytes`.

        Projections and feed-forward layers are shared by `tensor` devices, experts by `tensor * data`, the embedding
        and the LM head (on different stages if there are several) by `tensor`.
        """
        weights = model.weights(dtype, expert_dtype)
        fullest = -(-model.layers // self.pipeline) / model.layers
        embeddings = weights.embeddings if self.pipeline == 1 else 2.0 * model.vocab * model.hidden
        layers = weights.dense / self.tensor + weights.routed / (self.tensor * self.data) + weights.small
        return fullest * layers + embeddings / self.tensor
