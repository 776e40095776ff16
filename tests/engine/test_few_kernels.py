"""A round in few kernels is the same function, in fewer kernels."""

import sys
from collections.abc import Callable
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxsim import _kernels, parse_scenario, run
from jaxsim._kernels import few_kernels, merges
from jaxsim.engine.programs import PROGRAMS, Programs

where_it_merges = pytest.mark.skipif(
    not merges(jax.default_backend()), reason="for a CPU, and for releases of JAX that it was tested with"
)

State = tuple[jax.Array, ...]


def count(state: State) -> State:
    """A little of everything: reductions, a conditional, a gather, scatters of which one is read again."""
    places, column, table, unused = state
    total = jnp.sum(column) + jnp.max(table, axis=0)[0]
    column = column.at[places].add(jnp.where(total > 3, 1.0, 2.0))
    column = lax.cond(jnp.any(column > 5), lambda c: c * 0.5, lambda c: c + 1, column)
    table = table.at[places, 0].set(column[places])
    return (places + 1) % 4, column + unused * 0, table + jnp.cumsum(table, axis=0), unused


def start() -> State:
    return jnp.arange(3), jnp.linspace(0.0, 3.0, 5), jnp.ones((5, 2)), jnp.int32(7)


def times(step: Callable[[State], State], rounds: int) -> State:
    return jax.jit(lambda state: lax.fori_loop(0, rounds, lambda _, s: step(s), state))(start())


def kernels(step: Callable[[State], State]) -> str:
    return jax.jit(step).lower(start()).compile().as_text()


@where_it_merges
def test_what_lies_between_scatters_is_marked_as_one_kernel():
    assert "xla_cpu_small_call" not in kernels(count)
    assert "xla_cpu_small_call" in kernels(few_kernels(count))


def hold_out(state: State) -> State:
    """Primitives that a kernel cannot hold."""
    places, column, table, unused = state
    root = jnp.linalg.cholesky(table.T @ table + jnp.eye(2))
    return places, jnp.sort(column * 2) + 1, jnp.tile(root, (3, 1))[:5] + jnp.argmax(column), unused


def derive(state: State) -> State:
    """Functions with derivatives of their own."""
    places, column, table, unused = state
    return places, jax.nn.relu(column - 1) + jnp.logaddexp(column, 1.0), jax.nn.softplus(table), unused


def ignore(state: State) -> State:
    """An argument that nothing reads, which would end the process."""
    places, column, table, unused = state
    return places, column + jax.jit(lambda a, b: a)(1.0, unused), table, unused * 0


@where_it_merges
@pytest.mark.parametrize("step", [count, hold_out, derive, ignore])
def test_the_function_stays_the_same(step: Callable[[State], State]):
    for ours, plain in zip(times(few_kernels(step), 3), times(step, 3), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-6)


def test_without_marks_the_same_program_runs():
    with mock.patch.dict(sys.modules, {"jax.experimental.xla_metadata": None}):
        for ours, plain in zip(times(few_kernels(count), 3), times(count, 3), strict=True):
            np.testing.assert_allclose(ours, plain, rtol=1e-6)


@pytest.mark.parametrize("version", [(0, 9, 2), (0, 11, 0), (1, 0, 0)])
def test_other_releases_of_jax_compile_as_they_always_did(version: tuple[int, ...]):
    with mock.patch.object(jax, "__version_info__", version):
        assert not merges("cpu")


def test_where_xla_has_threads_it_compiles_as_it_always_did(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NPROC", "2")
    assert not merges("cpu")
    monkeypatch.delenv("NPROC")
    assert not merges("cpu")


@where_it_merges
def test_what_cannot_be_one_kernel_is_compiled_as_it_always_was():
    def sort(column: jax.Array) -> jax.Array:
        return few_kernels(lambda x: jnp.sort(x) + jnp.sum(x))(column)

    inside = mock.patch.object(_kernels, "_INSIDE", _kernels._INSIDE | {"sort"})
    with inside, pytest.warns(RuntimeWarning, match="runs slower"):
        program = Programs().program((), sort, (jnp.arange(4.0),), jax.devices()[0])
    np.testing.assert_array_equal(program(jnp.arange(4.0)), jnp.arange(4.0) + 6)


def test_accelerators_compile_as_they_always_did():
    assert not merges("gpu") and not merges("tpu")


SCENARIOS = {
    "stream, preempted": {"kv_cache": {"num_blocks": 60, "block_size": 4}},
    "fleet": {"scheduler": {"kind": "vllm_v1", "queue_order": "shortest_job"}},
}


@where_it_merges
@pytest.mark.parametrize("instance", SCENARIOS.values(), ids=SCENARIOS)
def test_results_do_not_depend_on_it(instance: dict[str, object], monkeypatch: pytest.MonkeyPatch):
    scenario = parse_scenario(
        {
            "workload": {
                "kind": "synthetic",
                "num_requests": 60,
                "arrivals": {"kind": "poisson", "rate": 20.0},
                "prompt_tokens": {"kind": "uniform", "min": 1, "max": 90},
                "output_tokens": {"kind": "uniform", "min": 1, "max": 60},
            },
            "cluster": {
                "instances": [{"latency": {"kind": "linear", "base_s": 0.01, "per_token_s": 1e-4}, **instance}]
            },
            "monte_carlo": {"seeds": 4},
        }
    )
    found, merged = {}, {}
    for switch in "01":
        monkeypatch.setenv("JAXSIM_FEW_KERNELS", switch)
        PROGRAMS.clear()
        with mock.patch.object(_kernels, "_as_one", wraps=_kernels._as_one) as as_one:
            found[switch] = run(scenario).requests
        merged[switch] = as_one.call_count
    PROGRAMS.clear()
    assert merged["0"] == 0 < merged["1"]
    for name in ("first_scheduled_s", "first_token_s", "finish_s"):
        np.testing.assert_array_equal(getattr(found["1"], name), getattr(found["0"], name))
    np.testing.assert_array_equal(found["1"].preemptions, found["0"].preemptions)
