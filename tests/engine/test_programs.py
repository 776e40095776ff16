"""Compiled programs are dropped before the memory mappings of the process run out."""

import sys
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import pytest

from jaxsim.engine import programs


def filled(count: int) -> programs.Programs:
    """With programs of `count` shapes."""
    some = programs.Programs()
    for size in range(1, count + 1):
        args = (jnp.arange(size),)
        doubled = some.program((size,), lambda x: 2 * x, args, jax.devices()[0])
        assert doubled(*args)[-1] == 2 * (size - 1)
    return some


def test_every_program_is_kept_and_compiled_once():
    some = filled(3)
    compiled = some.compile_seconds
    again = some.program((2,), lambda x: 3 * x, (jnp.arange(2),), jax.devices()[0])
    assert len(some) == 3 and some.compile_seconds == compiled
    assert again(jnp.arange(2))[-1] == 2


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such limit")
def test_programs_go_when_the_mappings_of_the_process_run_out():
    with mock.patch.object(programs, "_SHARE_OF_MAPPINGS", 0.0):
        assert len(filled(3)) == 1


def test_where_mappings_are_not_counted_programs_stay(tmp_path: Path):
    with (
        mock.patch.object(programs, "_MAPPINGS", tmp_path / "none"),
        mock.patch.object(programs, "_SHARE_OF_MAPPINGS", 0),
    ):
        assert len(filled(3)) == 3
