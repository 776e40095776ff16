"""Iteration time from hardware and model: the sum of its operators, each a roofline."""

import functools
import math
from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim._component import check, check_not_negative, component
from jaxsim.latency.base import AbstractLatency, Piece
from jaxsim.latency.terms import Terms
from jaxsim.operators.base import Operator, Rates, amount, seconds
from jaxsim.operators.batch import GROWING, TERMS, Quantities, Sizes, quantities
from jaxsim.operators.efficiency import Efficiency, fitted_efficiency
from jaxsim.operators.lines import Line, Number, larger, module_of
from jaxsim.operators.moe import expert_load
from jaxsim.operators.transformer import transformer_operators
from jaxsim.specs.dtypes import Dtype, KvDtype
from jaxsim.specs.hardware import HardwareSpec, Link, named_hardware
from jaxsim.specs.memory import MemoryUse, num_blocks
from jaxsim.specs.model import ModelSpec, named_model
from jaxsim.specs.parallelism import Parallelism

Form = Mapping[str, Number]
"""Seconds per unit of each quantity of the batch."""


@component
class Roofline(AbstractLatency):
    """Iteration time as the sum of the model's operators on the hardware, each
    `max(FLOPs / (eta_c * peak), bytes / (eta_m * bandwidth)) + t0`, plus `host_s`.

    Efficiencies eta and t0 are fitted per hardware and kind of operator (`jaxsim.operators.efficiency`). A batch is
    one pass over the weights with the tokens of prompts and decodes together, and attention for each of the two.

    Pipeline stages work on different batches: requests are spread evenly over up to `pipeline_batches` batches, and an
    iteration is the time in which every one passes all stages. With fewer requests than stages some stages idle (the
    bubble). With `data_parallel` ranks in lock step, the instance is one of them, and the others are taken to have
    batches of the same size.

    Attributes:
        model: name of a model, its shape, or a file with it (also the `config.json` of Hugging Face).
        hardware: name of an accelerator, its rates, or a file with them.
        tensor_parallel: devices that share every layer.
        pipeline_parallel: stages that share the layers.
        expert_parallel: groups that share the experts, each expert whole in one group.
        data_parallel: ranks in lock step that share the experts of a layer.
        dtype: format of the weights; null is as published.
        expert_dtype: format of the experts' weights; null is `dtype` if that is given, else as published.
        kv_dtype: format of the KV cache.
        link: bandwidth and latency between devices, as measured; null is the hardware's nominal link.
        efficiency: efficiencies in place of the fitted ones.
        expert_imbalance: rows of the busiest group of experts over the mean of all, 1 or greater.
        pipeline_batches: batches between the stages at a time; null is as many as stages.
        host_s: seconds of an iteration in which the device waits for the host: a fact of the machine.
        front_end_s: seconds from a request's arrival until the scheduler sees it.
    """

    terms: ClassVar[tuple[str, ...]] = TERMS

    kind: Literal["roofline"] = "roofline"
    model: ModelSpec | str
    hardware: HardwareSpec | str
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    expert_parallel: int = 1
    data_parallel: int = 1
    dtype: Dtype | None = None
    expert_dtype: Dtype | None = None
    kv_dtype: KvDtype = "bf16"
    link: Link | None = None
    efficiency: Efficiency | None = None
    expert_imbalance: float = 1.0
    pipeline_batches: int | None = None
    host_s: float = 0.0
    front_end_s: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.model, str):
            object.__setattr__(self, "model", named_model(self.model))
        if isinstance(self.hardware, str):
            object.__setattr__(self, "hardware", named_hardware(self.hardware))
        for field in ("tensor_parallel", "pipeline_parallel", "expert_parallel", "data_parallel", "pipeline_batches"):
            check(self, field, lambda value: value >= 1, "1 or greater")
        check(self, "expert_imbalance", lambda value: 1 <= value < math.inf, "1 or greater")
        check_not_negative(self, "host_s", "front_end_s")
        self.parallel.check(self.spec)

    @property
    def spec(self) -> ModelSpec:
        """The model's shape."""
        assert isinstance(self.model, ModelSpec)
        return self.model

    @property
    def device(self) -> HardwareSpec:
        """The accelerator."""
        assert isinstance(self.hardware, HardwareSpec)
        return self.hardware

    @property
    def parallel(self) -> Parallelism:
        """How the model is split."""
        return Parallelism(
            tensor=self.tensor_parallel,
            pipeline=self.pipeline_parallel,
            expert=self.expert_parallel,
            data=self.data_parallel,
        )

    @functools.cached_property
    def efficiencies(self) -> Efficiency:
        """The efficiencies in use."""
        fitted = fitted_efficiency(self.device.name)
        return self.efficiency.filled(fitted) if self.efficiency else fitted

    @functools.cached_property
    def operators(self) -> tuple[Operator, ...]:
        """The operators of one iteration, and the times that no kernel explains."""
        dtype = self.dtype or self.spec.dtype
        mixed_s = self.efficiencies.mixed_layer_s or 0.0
        return (
            *transformer_operators(
                self.spec,
                self.device,
                self.parallel,
                dtype=dtype,
                expert_dtype=self.expert_dtype or self.dtype or self.spec.expert_dtype or dtype,
                kv_dtype=self.kv_dtype,
            ),
            Operator("mixed batch", "fixed", self.spec.layers, {}, {}, runs="mixed", overhead_s=mixed_s),
            Operator("host", "fixed", 1.0, {}, {}, overhead_s=self.host_s),
        )

    def rates(self, operator: Operator) -> Rates:
        """What the hardware reaches on an operator."""
        return self.efficiencies.rates(operator, self.device, self.link)

    @functools.cached_property
    def sizes(self) -> Sizes:
        """Sizes that the quantities of a batch depend on."""
        spec, parallel = self.spec, self.parallel
        return Sizes(
            prefill_tile_rows=float(self.efficiencies.prefill_tile_rows or 1),
            heads=spec.heads / parallel.tensor,
            compute_units=float(self.device.compute_units),
            window=float(spec.sliding_window) if spec.sliding_window and spec.sliding_layers else None,
            **(expert_load(spec, parallel, self.expert_imbalance) if spec.experts else {}),
        )

    def num_blocks(self, use: MemoryUse, block_size: int) -> int:
        """KV blocks of `block_size` tokens that an instance has room for; see `jaxsim.specs.memory.num_blocks`."""
        return num_blocks(
            self.spec,
            self.device,
            self.parallel,
            use,
            block_size=block_size,
            dtype=self.dtype,
            expert_dtype=self.expert_dtype,
            kv_dtype=self.kv_dtype,
        )

    def measure(self, terms: Mapping[str, Number]) -> Quantities:
        """The quantities of one of the batches between the stages, given the terms of all; numbers or NumPy arrays."""
        return _quantities({name: Line(terms[name]) for name in TERMS}, self.sizes, self._batches)

    def seconds(self, terms: Mapping[str, Number]) -> Number:
        """Seconds of an iteration with these terms (numbers or NumPy arrays), operator by operator; as `price` says."""
        found = self.measure(terms)
        return sum(seconds(operator, self.rates(operator), found).first for operator in self.operators)

    @property
    def _batches(self) -> float | None:
        batches = self.pipeline_batches or self.pipeline_parallel
        return float(batches) if batches > 1 else None

    def price(self, terms: Terms, growth: Terms) -> Piece:
        """See `AbstractLatency.price`; only `GROWING` terms may grow. A piece ends where a maximum changes hands."""
        return self.prepared.price(terms, growth)

    @functools.cached_property
    def prepared(self) -> "RooflineClock":
        """The same clock, reduced to what changes from batch to batch."""
        fixed: dict[str, float] = {}
        maxima = []
        for operator in self.operators:
            rates = self.rates(operator)
            compute = _scaled(operator.busy_flops or operator.flops, operator.count * rates.seconds_per_flop)
            memory = _scaled(operator.bytes, operator.count * rates.seconds_per_byte)
            if _never_above(compute, memory):
                _add(fixed, memory)
            else:
                maxima.append(Roofs(compute, memory))
            if rates.overhead_s:
                _add(fixed, {operator.runs: operator.count * rates.overhead_s})
        clock = RooflineClock(fixed=fixed, maxima=tuple(maxima), sizes=self.sizes, batches=self._batches)
        return jax.tree.map(lambda number: np.asarray(number, np.float64), clock)


class Roofs(NamedTuple):
    """The two roofs of one operator, all its calls together: it takes the larger of the two."""

    compute: Form
    memory: Form


@component
class RooflineClock(AbstractLatency):
    """What the engine evaluates: a linear form of the batch's quantities plus a maximum of two for each operator.

    Its structure is the kind of model; all numbers are leaves, so models of one kind share a compiled program.

    Attributes:
        fixed: seconds that grow in proportion.
        maxima: the operators that have two roofs.
        sizes: what quantities depend on.
        batches: most batches between pipeline stages; None if there is one stage.
    """

    terms: ClassVar[tuple[str, ...]] = TERMS

    fixed: Form
    maxima: tuple[Roofs, ...]
    sizes: Sizes
    batches: Number | None

    def price(self, terms: Terms, growth: Terms) -> Piece:
        """See `AbstractLatency.price`."""
        lines = {name: Line(terms[name], growth[name]) if name in GROWING else Line(terms[name]) for name in TERMS}
        found = _quantities(lines, self.sizes, self.batches)
        total = amount(self.fixed, found)
        for roofs in self.maxima:
            total = total + larger(amount(roofs.compute, found), amount(roofs.memory, found))
        return Piece(total.first, jnp.zeros_like(total.first) + total.growth, total.iterations)


def _quantities(terms: Mapping[str, Line], sizes: Sizes, batches: Number | None) -> Quantities:
    """The quantities of one of the batches between pipeline stages, over as many of which requests are spread."""
    if batches is not None:
        requests = terms["decode_seqs"].first + terms["prefill_seqs"].first
        xp = module_of(requests, batches)
        share = 1 / xp.clip(requests, 1.0, batches)
        terms = {name: line * share for name, line in terms.items()}
    return quantities(terms, sizes)


def _scaled(form: Mapping[str, float], factor: float) -> dict[str, float]:
    return {quantity: per_unit * factor for quantity, per_unit in form.items()}


def _add(form: dict[str, float], other: Mapping[str, float]) -> None:
    for quantity, per_unit in other.items():
        form[quantity] = form.get(quantity, 0.0) + per_unit


def _never_above(low: Mapping[str, float], high: Mapping[str, float]) -> bool:
    return all(per_unit <= high.get(quantity, 0.0) for quantity, per_unit in low.items())
