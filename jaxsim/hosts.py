"""Several processes, on one machine or many, that share a run; process 0 leads, gathers and writes.

`jax.distributed` brings them together, and all they tell each other goes through its coordination service, which
process 0 hosts: a few megabytes a chunk of seeds, and the table of requests if there is one. Folders need not be shared
between machines. No collective operation is used, so the only socket is the coordinator's, at the address it was given.
"""

import itertools
import json
import os
from collections.abc import Callable
from typing import Any

import jax
from jax.errors import JaxRuntimeError

_RUNS = itertools.count()
_WAIT_MS = 1000
"""A wait in the runtime cannot be interrupted, so it returns now and then."""

_MESSAGE_BYTES = 16 << 20
"""Most bytes of one message of the coordination service."""


def join(coordinator: str, num_processes: int, process_id: int) -> None:
    """Become one of several processes that run the same scenario; to be called before anything else uses JAX.

    Args:
        coordinator: `HOST:PORT` at which process 0 listens and the others find it. It listens at that address only;
            the environment variable JAX_COORDINATOR_BIND_ADDRESS names another (`0.0.0.0:PORT`).
        num_processes: how many there are.
        process_id: which of them this is, from 0.
    """
    jax.config.update("jax_cpu_collectives_implementation", None)  # gloo would listen at the host's name
    jax.distributed.initialize(
        coordinator,
        num_processes,
        process_id,
        coordinator_bind_address=os.environ.get("JAX_COORDINATOR_BIND_ADDRESS", coordinator),
    )


class Failed(ValueError):
    """Another process cannot go on."""


class Hosts:
    """The processes of one run. All of them must call the same methods in the same order.

    Attributes:
        index: which of the processes this is.
        count: how many there are; 1 unless `jax.distributed` was initialised.
    """

    def __init__(self) -> None:
        self.index, self.count = jax.process_index(), jax.process_count()
        self._name = f"jaxsim/{next(_RUNS)}"
        self._step = 0

    @property
    def leads(self) -> bool:
        """Whether this is process 0."""
        return self.index == 0

    def agree(self, decide: Callable[[], Any]) -> Any:
        """What `decide` returns in process 0 (plain data), in all of them.

        Raises:
            Failed: `decide` raised in process 0, which raises what it raised.
        """
        if self.count == 1:
            return decide()
        key = self._next_key()
        if not self.leads:
            said = json.loads(_receive(key))
            if "error" in said:
                raise Failed(said["error"])
            return said["value"]
        try:
            said = {"value": decide()}
        except BaseException as error:
            _send(key, json.dumps({"error": str(error) or type(error).__name__}).encode())
            raise
        _send(key, json.dumps(said).encode())
        return said["value"]

    def gather(self, data: Callable[[], bytes]) -> list[bytes]:
        """In process 0, what `data` returns in each of the others, in order; nothing elsewhere."""
        key = self._next_key()
        if self.leads:
            return [_receive(f"{key}/{index}", forget=True) for index in range(1, self.count)]
        _send(f"{key}/{self.index}", data())
        return []

    def _next_key(self) -> str:
        self._step += 1
        return f"{self._name}/{self._step}"


def _client() -> Any:
    from jax._src import distributed  # the service has no public name yet; Orbax and Flax reach for it here, too

    return distributed.global_state.client


def _send(key: str, data: bytes) -> None:
    pieces = range(0, len(data), _MESSAGE_BYTES)
    for place, start in enumerate(pieces):
        _client().key_value_set_bytes(f"{key}/{place}", data[start : start + _MESSAGE_BYTES])
    _client().key_value_set_bytes(f"{key}/pieces", str(len(pieces)).encode())


def _receive(key: str, forget: bool = False) -> bytes:
    pieces = int(_wait_for(f"{key}/pieces"))
    data = b"".join(_wait_for(f"{key}/{place}") for place in range(pieces))
    if forget:
        _client().key_value_delete(key)
    return data


def _wait_for(key: str) -> bytes:
    while True:
        try:
            return bytes(_client().blocking_key_value_get_bytes(key, _WAIT_MS))
        except JaxRuntimeError as error:
            if "DEADLINE_EXCEEDED" not in str(error):
                raise
