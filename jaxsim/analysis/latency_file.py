"""Latency models as sections of scenario files, and clocks as tables."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxsim.analysis.samples import Samples, Seconds, terms_of
from jaxsim.config.reader import plain
from jaxsim.config.text import dump_yaml
from jaxsim.latency import AbstractLatency, Table, tabulate
from jaxsim.specs import HardwareSpec, ModelSpec, named_hardware, named_model

_NODES = {"prefill_tokens": 20, "prefill_context": 5, "decode_seqs": 10, "decode_context": 10}
"""Most points of each axis of a tabulated clock."""


def latency_yaml(latency: AbstractLatency, comments: Sequence[str], beside: Path | None = None) -> str:
    """A latency as the section `latency` of an instance, without what is as by default.

    Args:
        latency: the component.
        comments: lines for the head.
        beside: the folder of the file, to which paths are relative.
    """
    given: dict[str, Any] = {}
    assert dataclasses.is_dataclass(latency)
    for field in dataclasses.fields(latency):
        value = getattr(latency, field.name)
        if field.name == "kind" or field.default is dataclasses.MISSING or value != field.default:
            given[field.name] = _named(value)
    if beside is not None and "path" in given:
        given["path"] = os.path.relpath(given["path"], beside)
    return "".join(f"# {line}\n" for line in comments) + dump_yaml({"latency": given})


def _named(value: Any) -> Any:
    """A model or accelerator by its name if that says it all, else plain data."""
    for spec, named in ((ModelSpec, named_model), (HardwareSpec, named_hardware)):
        if isinstance(value, spec):
            try:
                known = named(value.name) == value
            except ValueError:
                known = False
            if known:
                return value.name
    return plain(value)


def tabulated(seconds: Seconds, samples: Samples, path: str | os.PathLike[str], comment: str) -> Table:
    """A clock as a table over the batches that samples reach, linear beyond them; written to `path`."""
    terms = {name: term.max(axis=1) for name, term in samples.terms.items()}
    before = (terms["prefill_pairs"] - terms["prefill_squares"]) / np.maximum(terms["prefill_tokens"], 1)
    reached = {
        "prefill_tokens": terms["prefill_tokens"],
        "prefill_context": before,
        "decode_seqs": terms["decode_seqs"],
        "decode_context": terms["context_tokens"] / np.maximum(terms["decode_seqs"], 1),
    }
    axes = {axis: _nodes(values, _NODES[axis]) for axis, values in reached.items()}
    axes["prefill_context"] = np.union1d([0.0], axes["prefill_context"])

    def step_s(tokens: np.ndarray, before: np.ndarray, seqs: np.ndarray, context: np.ndarray) -> np.ndarray:
        batch = terms_of(
            decode_seqs=seqs,
            context_tokens=seqs * context,
            prefill_seqs=np.minimum(tokens, 1),
            prefill_tokens=tokens,
            prefill_pairs=tokens * (before + tokens),
            prefill_squares=tokens**2,
        )
        return seconds(batch)[:, 0]

    table = tabulate(step_s, path, comment=comment, **{axis: list(nodes) for axis, nodes in axes.items()})
    return dataclasses.replace(table, extrapolate="linear")


def _nodes(values: np.ndarray, most: int) -> np.ndarray:
    """Whole numbers from 1 to the largest value, in equal ratios, those that occur among them if they are few."""
    found = np.unique(values[values > 0].round())
    if not len(found):
        return np.array([1.0])
    steps = np.unique(np.geomspace(1, found[-1], most).round())
    return found if 4 <= len(found) <= most else np.union1d(steps, found[-1:])
