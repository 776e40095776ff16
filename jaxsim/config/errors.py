"""What is wrong with a scenario, in one sentence that names the key and what is valid."""

import difflib
from collections.abc import Iterable, Mapping

# Names that the scenario format reserves for what is not built yet. Only looked at when a name is not valid, so a name
# that becomes valid needs no change here.
PLANNED = frozenset(
    """
    decode_router kv_transfer role_switching unavailable on_failure staleness_s gpu_memory_utilization max_in_flight
    prefill decode warm
    weibull on_off markov piecewise closed_loop pareto
    priority shortest_prompt shortest_job longest_waiting
    vllm_v0 sarathi orca static sglang
    least_waiting least_outstanding least_kv least_tokens power_of_two weighted_capacity session_affinity central_queue
    """.split()
)


class ScenarioError(ValueError):
    """A scenario that cannot be used.

    Attributes:
        problem: What is wrong; what is valid.
        key: Path of the key at fault as `--set` writes it, such as `cluster.instances.0.count`; "" if none.
        source: The file or option that said so; "" for a scenario built in Python.
    """

    def __init__(self, problem: str, key: str = "", source: str = ""):
        super().__init__(problem, key, source)
        self.problem, self.key, self.source = problem, key, source

    def __str__(self) -> str:
        return ": ".join(part for part in (self.source, self.key, self.problem) if part)


def choices(name: str, valid: Iterable[str]) -> str:
    """What to write instead of `name`: whether it is planned, else the nearest valid name, then all that are valid."""
    names = list(valid)
    listed = f"valid: {', '.join(names)}"
    if name in PLANNED:
        return f"planned, but not in this version of jaxsim; {listed}"
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}? {listed}" if near else listed


def shown(value: object) -> str:
    """`value` as a message quotes it: short, on one line, in the words of a scenario file."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a section of keys"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:56]}...{text[-1]}"
