"""jaxsim: simulate LLM serving fleets, request by request and iteration by iteration, thousands of seeds at a time.

The names below are the public API. They are loaded when first used, so that `import jaxsim` and `jaxsim --help` do not
wait for JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jaxsim._version import __version__ as __version__

if TYPE_CHECKING:
    from jaxsim.analysis.calibrate import calibrate as calibrate
    from jaxsim.analysis.calibrate_host import calibrate_host as calibrate_host
    from jaxsim.analysis.capacity import capacity as capacity
    from jaxsim.analysis.compare import compare as compare
    from jaxsim.analysis.explain import explain as explain
    from jaxsim.analysis.iteration import iteration as iteration
    from jaxsim.analysis.monte_carlo import monte_carlo as monte_carlo
    from jaxsim.analysis.optimise import optimise as optimise
    from jaxsim.analysis.queueing import queueing as queueing
    from jaxsim.analysis.ratio import ratio as ratio
    from jaxsim.analysis.sample_files import read_samples as read_samples
    from jaxsim.analysis.sensitivity import sensitivity as sensitivity
    from jaxsim.analysis.sweep import sweep as sweep
    from jaxsim.analysis.trace_describe import describe_trace as describe_trace
    from jaxsim.analysis.trace_fit import fit_trace as fit_trace
    from jaxsim.analysis.validate import validate as validate
    from jaxsim.config.errors import ScenarioError as ScenarioError
    from jaxsim.config.io import dump_scenario as dump_scenario
    from jaxsim.config.io import load_scenario as load_scenario
    from jaxsim.config.io import parse_scenario as parse_scenario
    from jaxsim.config.quick import quick_scenario as quick_scenario
    from jaxsim.config.schema import Cluster as Cluster
    from jaxsim.config.schema import Engine as Engine
    from jaxsim.config.schema import Instance as Instance
    from jaxsim.config.schema import KvCache as KvCache
    from jaxsim.config.schema import MonteCarlo as MonteCarlo
    from jaxsim.config.schema import Scenario as Scenario
    from jaxsim.latency import Roofline as Roofline
    from jaxsim.latency import Table as Table
    from jaxsim.latency import tabulate as tabulate
    from jaxsim.report.page import write_report as write_report
    from jaxsim.result import Result as Result
    from jaxsim.result import load_result as load_result
    from jaxsim.simulate import record as record
    from jaxsim.simulate import run as run
    from jaxsim.specs import HardwareSpec as HardwareSpec
    from jaxsim.specs import ModelSpec as ModelSpec
    from jaxsim.specs import Slo as Slo
    from jaxsim.specs import from_hf_config as from_hf_config
    from jaxsim.workload import Requests as Requests

_HOMES = {
    "Cluster": "config.schema",
    "Engine": "config.schema",
    "HardwareSpec": "specs",
    "Instance": "config.schema",
    "KvCache": "config.schema",
    "ModelSpec": "specs",
    "MonteCarlo": "config.schema",
    "Requests": "workload",
    "Result": "result",
    "Roofline": "latency",
    "Scenario": "config.schema",
    "ScenarioError": "config.errors",
    "Slo": "specs",
    "Table": "latency",
    "calibrate": "analysis.calibrate",
    "calibrate_host": "analysis.calibrate_host",
    "capacity": "analysis.capacity",
    "compare": "analysis.compare",
    "describe_trace": "analysis.trace_describe",
    "dump_scenario": "config.io",
    "explain": "analysis.explain",
    "fit_trace": "analysis.trace_fit",
    "from_hf_config": "specs",
    "iteration": "analysis.iteration",
    "load_result": "result",
    "load_scenario": "config.io",
    "monte_carlo": "analysis.monte_carlo",
    "optimise": "analysis.optimise",
    "parse_scenario": "config.io",
    "queueing": "analysis.queueing",
    "quick_scenario": "config.quick",
    "ratio": "analysis.ratio",
    "read_samples": "analysis.sample_files",
    "record": "simulate",
    "run": "simulate",
    "sensitivity": "analysis.sensitivity",
    "sweep": "analysis.sweep",
    "tabulate": "latency",
    "validate": "analysis.validate",
    "write_report": "report.page",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'jaxsim' has no attribute {name!r}")
    return getattr(import_module(f"jaxsim.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
