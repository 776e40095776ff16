"""Workloads to start from: typical lengths of what LLMs serve, each with where its numbers come from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jaxsim.config.errors import ScenarioError, choices, shown


@dataclass(frozen=True)
class Preset:
    """One kind of service.

    Attributes:
        summary: what it is.
        source: where the lengths come from.
        workload: the section of a scenario; its rate is only a start.
        slo: a promise that suits it.
    """

    summary: str
    source: str
    workload: Mapping[str, Any]
    slo: Mapping[str, Any]


def _workload(rate: float, prompt_tokens: Mapping[str, Any], output_tokens: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kind": "synthetic",
        "num_requests": 1000,
        "arrivals": {"kind": "poisson", "rate": rate},
        "prompt_tokens": prompt_tokens,
        "output_tokens": output_tokens,
    }


_CATALOGUE = "inference-perf workload catalogue, kubernetes-sigs/inference-perf at 76e2959"

PRESETS: Mapping[str, Preset] = {
    "chat": Preset(
        summary="people chatting with an assistant",
        source="mean, variation and range of the Azure LLM inference trace 2023, conversation: 19,366 requests "
        "(Patel et al., Splitwise, ISCA 2024; AzurePublicDataset)",
        workload=_workload(
            4.0,
            {"kind": "gamma", "mean": 1155, "cv": 0.96, "max": 14050},
            {"kind": "gamma", "mean": 211, "cv": 0.77, "min": 7, "max": 1000},
        ),
        slo={"ttft_s": {"p99": 1.0}, "tpot_s": {"mean": 0.1}},
    ),
    "code": Preset(
        summary="code completion in an editor: long context, a few tokens back",
        source="mean, variation (median 13 and mean 28 of outputs) and range of the Azure LLM inference trace 2023, "
        "code: 8,819 requests (Patel et al., Splitwise, ISCA 2024; AzurePublicDataset)",
        workload=_workload(
            4.0,
            {"kind": "gamma", "mean": 2048, "cv": 0.96, "max": 7437},
            {"kind": "lognormal", "median": 13, "sigma": 1.24, "min": 6, "max": 1899},
        ),
        slo={"ttft_s": {"p99": 0.5}, "tpot_s": {"mean": 0.05}},
    ),
    "summarisation": Preset(
        summary="summaries of articles",
        source="median and P90 of arxiv_summarization: prompts 7,059 and 12,985 tokens, outputs 208 and 371 "
        "(Agrawal et al., Sarathi-Serve, OSDI 2024, table 2)",
        workload=_workload(
            0.5,
            {"kind": "lognormal", "median": 7059, "sigma": 0.476, "max": 16000},
            {"kind": "lognormal", "median": 208, "sigma": 0.451, "max": 2000},
        ),
        slo={"ttft_s": {"p99": 5.0}, "tpot_s": {"mean": 0.1}},
    ),
    "rag": Preset(
        summary="answers from retrieved documents",
        source="mean, standard deviation and range of batch-summarization-rag: prompts 15,000 and 22,000 tokens behind "
        f"a common 500, outputs 500 and 300 ({_CATALOGUE})",
        workload=_workload(
            0.25,
            {"kind": "lognormal", "median": 8927, "sigma": 1.05, "min": 1500, "max": 80500},
            {"kind": "lognormal", "median": 429, "sigma": 0.555, "min": 50, "max": 2000},
        ),
        slo={"ttft_s": {"p99": 10.0}, "tpot_s": {"mean": 0.1}},
    ),
    "reasoning": Preset(
        summary="short questions, long chains of thought",
        source="mean, standard deviation and range of reasoning: prompts 1,000 and 800 tokens behind a common 250, "
        f"outputs 8,000 and 6,500 ({_CATALOGUE})",
        workload=_workload(
            0.25,
            {"kind": "lognormal", "median": 1053, "sigma": 0.586, "min": 350, "max": 5250},
            {"kind": "lognormal", "median": 6209, "sigma": 0.712, "min": 500, "max": 32000},
        ),
        slo={"ttft_s": {"p99": 2.0}, "tpot_s": {"mean": 0.05}},
    ),
    "agentic": Preset(
        summary="agents calling tools: long shared context, short outputs, bursts",
        source="mean lengths of the Mooncake tool&agent trace, 8,596 and 182 tokens (Qin et al., Mooncake, FAST 2025); "
        "variation 1.3 and 0.73 and range of the Mooncake conversation trace; the burstiness is an assumption",
        workload=_workload(
            0.5,
            {"kind": "lognormal", "median": 5241, "sigma": 0.995, "min": 500, "max": 126195},
            {"kind": "gamma", "mean": 182, "cv": 0.73, "max": 2000},
        )
        | {"arrivals": {"kind": "gamma", "rate": 0.5, "cv": 2.0}},
        slo={"ttft_s": {"p99": 5.0}, "tpot_s": {"mean": 0.05}},
    ),
}


def chosen(name: Any, key: str = "") -> Preset:
    """The preset of that name; a ScenarioError about `key` if there is none."""
    if not isinstance(name, str) or name not in PRESETS:
        raise ScenarioError(f"unknown preset {shown(name)}; {choices(str(name), PRESETS)}", key)
    return PRESETS[name]


def expanded(workload: Any) -> Any:
    """A `workload` section with `preset` in it as the section it stands for; any other as it is.

    `rate` sets the rate of its arrivals; other keys replace the preset's, section by section.

    Raises:
        ScenarioError: an unknown preset.
    """
    if not (isinstance(workload, Mapping) and "preset" in workload):
        return workload
    given = dict(workload)
    preset = chosen(given.pop("preset"), "workload.preset")
    if "rate" in given:
        arrivals = given.get("arrivals")
        given["arrivals"] = {**(arrivals if isinstance(arrivals, Mapping) else {}), "rate": given.pop("rate")}
    return _merged(preset.workload, given)


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes` in it; a section of another kind replaces the whole section."""
    merged = dict(base)
    for key, value in changes.items():
        inner = base.get(key)
        if isinstance(value, Mapping) and isinstance(inner, Mapping):
            same = value.get("kind", inner["kind"]) == inner["kind"]
            value = _merged(inner, value) if same else value
        merged[key] = value
    return merged
