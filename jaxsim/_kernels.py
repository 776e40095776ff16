"""A round in few kernels: on a CPU, everything between two scatters is compiled into one function.

XLA makes a kernel of every output of a fusion and runs them one by one from a list, at about 75 ns each: a round of
streams is 120 of them, one of a fleet 450. A call marked `xla_cpu_small_call` is compiled as one function instead, in
which the same loops follow each other. Such a function may hold anything elementwise, reductions, gathers and
conditionals, but no scatter; so `few_kernels` cuts a round at its scatters. `benchmarks/README.md` has the figures.

The mark belongs to XLA's inside. It is used with releases of JAX that it was tested with, and where XLA has one thread
(as in jaxsim's own processes; elsewhere if `NPROC=1` is in the environment before JAX starts): with more, XLA splits
the larger loops of such a function among them, and then cannot compile it. Otherwise, and on accelerators, a round
stays what it was, with the same results.
"""

import contextlib
import contextvars
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import jax
from jax.extend import core

State = TypeVar("State")

_TESTED = (0, 10)
"""Releases of JAX in which the mark was tested."""

_ELEMENTWISE = """
abs add and atan2 bitcast_convert_type cbrt ceil clamp convert_element_type copy cos div eq erf exp exp2 expm1 floor
ge gt integer_pow is_finite le log log1p logistic lt max min mul ne neg not or population_count pow rem round rsqrt
select_n shift_left shift_right_arithmetic shift_right_logical sign sin sqrt square stop_gradient sub tan tanh xor
"""
_OF_ARRAYS = """
broadcast_in_dim concatenate expand_dims gather iota reduce_and reduce_max reduce_min reduce_or reduce_sum reshape rev
slice squeeze stack transpose
"""
_OF_PROGRAMS = "closed_call cond custom_jvp_call custom_vjp_call jit pjit"
_INSIDE = frozenset(f"{_ELEMENTWISE} {_OF_ARRAYS} {_OF_PROGRAMS}".split())
"""Primitives that may be part of a larger kernel. Others are kernels of their own, as without all this."""

_JOINS = frozenset(("concatenate", "stack"))
_VIEWS = frozenset(("expand_dims", "reshape", "squeeze", "transpose"))
"""Primitives that say how a buffer is looked at."""


def marked(**marks: str) -> AbstractContextManager[object]:
    """In here, operations carry marks for XLA. Should JAX drop them, the same program runs, only slower."""
    try:
        from jax.experimental.xla_metadata import set_xla_metadata
    except ImportError:
        return contextlib.nullcontext()
    return set_xla_metadata(**marks)


_split = contextvars.ContextVar("_split", default=False)


def merges(platform: str) -> bool:
    """Whether rounds on this platform are compiled into few kernels. `JAXSIM_FEW_KERNELS=0` switches it off."""
    tested = jax.__version_info__[:2] == _TESTED
    wanted = os.environ.get("JAXSIM_FEW_KERNELS", "1") != "0" and os.environ.get("NPROC") == "1" and not _split.get()
    return platform == "cpu" and tested and wanted


@contextlib.contextmanager
def many_kernels() -> Iterator[None]:
    """In here, rounds are compiled as XLA would by itself."""
    token = _split.set(True)
    try:
        yield
    finally:
        _split.reset(token)


def few_kernels(step: Callable[[State], State]) -> Callable[[State], State]:
    """The same function in as few kernels as its scatters allow."""

    @functools.wraps(step)
    def call(state: State) -> State:
        if not merges(jax.default_backend()):
            return step(state)
        closed, shape = jax.make_jaxpr(step, return_shape=True)(state)
        program = closed.jaxpr
        known = dict(zip(program.constvars, closed.consts, strict=True))
        known |= zip(program.invars, jax.tree.leaves(state), strict=True)
        results = set(_variables(program.outvars))
        rest = _live(program.eqns, results)
        apart = _written_apart(rest)
        while rest:
            rest = _run_alone(rest, known, apart)
            rest = _run_together(rest, known, results, apart)
        leaves = [out.val if isinstance(out, core.Literal) else known[out] for out in program.outvars]
        return jax.tree.unflatten(jax.tree.structure(shape), leaves)

    return call


def _run_alone(equations: list[core.JaxprEqn], known: dict[core.Var, Any], apart: set[core.Var]) -> list[core.JaxprEqn]:
    """Run what must be, or may as well be, a kernel of its own and has all it needs; returns the others."""
    others = []
    for equation in equations:
        alone = _is_view(equation) or not _may_be_inside(equation) or not apart.isdisjoint(equation.outvars)
        if alone and all(variable in known for variable in _variables(equation.invars)):
            _run([equation], known)
        else:
            others.append(equation)
    return others


def _run_together(
    equations: list[core.JaxprEqn], known: dict[core.Var, Any], results: set[core.Var], apart: set[core.Var]
) -> list[core.JaxprEqn]:
    """Run as one kernel whatever may be part of one and does not depend on what may not; returns the others."""
    made: set[core.Var] = set()
    mine, others = [], []
    for equation in equations:
        there = all(variable in known or variable in made for variable in _variables(equation.invars))
        if there and _may_be_inside(equation) and apart.isdisjoint(equation.outvars):
            mine.append(equation)
            made |= set(equation.outvars)
        else:
            others.append(equation)
    if not mine:
        return others
    read = dict.fromkeys(variable for equation in mine for variable in _variables(equation.invars))
    needed = [variable for variable in read if variable not in made]
    wanted = results.union(*(_variables(equation.invars) for equation in others))
    given = [variable for equation in mine for variable in equation.outvars if variable in wanted]

    def kernel(*values: jax.Array) -> list[jax.Array]:
        inside = dict(zip(needed, values, strict=True))
        _run(mine, inside)
        return [inside[variable] for variable in given]

    known |= zip(given, _as_one(kernel)(*(known[variable] for variable in needed)), strict=True)
    return others


def _as_one(function: Callable[..., list[jax.Array]]) -> Callable[..., list[jax.Array]]:
    """The function compiled as one kernel.

    It is a call in a call: an argument that the marked call does not read makes XLA end the process, and it reads all
    that it hands on.
    """
    body = jax.jit(function)

    def whole(*args: jax.Array) -> list[jax.Array]:
        with marked(inlineable="false"):
            return body(*args)

    jitted = jax.jit(whole)

    def call(*args: jax.Array) -> list[jax.Array]:
        with marked(inlineable="false", xla_cpu_small_call="true"):
            return jitted(*args)

    return call


def _run(equations: Iterable[core.JaxprEqn], known: dict[core.Var, Any]) -> None:
    """Add the results of the equations to what is known."""
    for equation in equations:
        values = [x.val if isinstance(x, core.Literal) else known[x] for x in equation.invars]
        primitive, params = equation.primitive, equation.params
        with equation.ctx.manager:  # what a `phase` is marked with
            if primitive.name.startswith("custom_") and "call_jaxpr" in params:  # nothing is differentiated here
                made = core.jaxpr_as_fun(params["call_jaxpr"])(*values)
            else:
                made = primitive.bind(*values, **params)
        known |= zip(equation.outvars, made if primitive.multiple_results else [made], strict=True)


def _live(equations: Sequence[core.JaxprEqn], results: set[core.Var]) -> list[core.JaxprEqn]:
    """The equations that the results depend on."""
    needed = set(results)
    kept = []
    for equation in reversed(equations):
        if needed.intersection(equation.outvars):
            kept.append(equation)
            needed |= set(_variables(equation.invars))
    return kept[::-1]


def _variables(atoms: Iterable[Any]) -> list[core.Var]:
    return [atom for atom in atoms if not isinstance(atom, core.Literal)]


def _may_be_inside(equation: core.JaxprEqn) -> bool:
    """Whether the equation, with all the programs it calls, may be part of a larger kernel."""
    return equation.primitive.name in _INSIDE and all(
        _may_be_inside(inner) for program in _programs(equation) for inner in program.eqns
    )


def _written_apart(equations: Sequence[core.JaxprEqn]) -> set[core.Var]:
    """What is joined only to be scattered: the places and values of several writes, four times slower in a kernel."""
    written: set[core.Var] = set()
    apart = set()
    for equation in reversed(equations):
        if not _may_be_inside(equation) or (_is_view(equation) and not written.isdisjoint(equation.outvars)):
            written |= set(_variables(equation.invars))
        elif equation.primitive.name in _JOINS:
            apart |= written.intersection(equation.outvars)
    return apart


def _is_view(equation: core.JaxprEqn) -> bool:
    """Whether XLA need not do anything for it outside a kernel; inside, it might copy the whole buffer it is given."""
    if equation.primitive.name not in ("convert_element_type", "broadcast_in_dim"):
        return equation.primitive.name in _VIEWS
    before, after = equation.invars[0].aval, equation.outvars[0].aval
    assert isinstance(before, jax.core.ShapedArray) and isinstance(after, jax.core.ShapedArray)
    return before.dtype == after.dtype and before.size == after.size


def _programs(equation: core.JaxprEqn) -> Iterable[core.Jaxpr]:
    for value in equation.params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, core.ClosedJaxpr):
                yield item.jaxpr
            elif isinstance(item, core.Jaxpr):
                yield item
