"""Presets: their lengths are what their sources say, and a scenario may name one and change it."""

import math
from typing import Any

import jsonschema
import numpy as np
import pytest

from jaxsim.config.errors import ScenarioError
from jaxsim.config.io import load_scenario, parse_scenario
from jaxsim.config.json_schema import scenario_schema
from jaxsim.config.presets import PRESETS
from jaxsim.config.starter import starter
from jaxsim.workload import Synthetic
from jaxsim.workload.arrivals import Gamma, Poisson
from jaxsim.workload.lengths import Fixed

CLUSTER = {
    "instances": [
        {
            "latency": {"kind": "linear", "base_s": 0.01},
            "scheduler": {"kind": "vllm_v1", "async_scheduling": False, "max_model_len": 131072},
        }
    ]
}


def workload(**keys: Any) -> Synthetic:
    read = parse_scenario({"workload": keys, "cluster": CLUSTER}).workload
    assert isinstance(read, Synthetic)
    return read


@pytest.mark.parametrize(
    ("preset", "prompt", "output"),
    [
        ("chat", {"mean": 1155, "p50": 1020, "p90": 2734}, {"mean": 211, "p90": 424}),
        ("code", {"mean": 2048, "p50": 1469, "p90": 5188}, {"mean": 28, "p50": 13, "p90": 55}),
        ("summarisation", {"p50": 7059, "p90": 12985}, {"p50": 208, "p90": 371}),
        ("rag", {"mean": 15500}, {"mean": 500}),
        ("reasoning", {"mean": 1250}, {"mean": 8000}),
        ("agentic", {"mean": 8596}, {"mean": 182}),
    ],
)
def test_lengths_are_those_of_the_source(preset: str, prompt: dict[str, float], output: dict[str, float]) -> None:
    """Within 25 %: clipping to the range of the source takes up to that from a heavy tail."""
    drawn = workload(preset=preset, num_requests=20_000).draw(np.array([0]))
    for tokens, expected in ((drawn.prompt_tokens[0], prompt), (drawn.output_tokens[0], output)):
        found = {"mean": tokens.mean(), "p50": np.median(tokens), "p90": np.percentile(tokens, 90)}
        for statistic, value in expected.items():
            assert abs(math.log(found[statistic] / value)) < math.log(1.25), (statistic, found[statistic], value)


def test_a_preset_with_changes() -> None:
    assert workload(preset="chat").arrivals == Poisson(rate=4.0)
    changed = workload(preset="chat", rate=6, num_requests=50, output_tokens={"max": 100})
    assert changed.arrivals == Poisson(rate=6.0) and changed.num_requests == 50
    assert changed.output_tokens.max == 100 and changed.output_tokens.cv == 0.77  # type: ignore[union-attr]
    assert changed.prompt_tokens == workload(preset="chat").prompt_tokens
    replaced = workload(
        preset="chat", rate=6, arrivals={"kind": "gamma", "cv": 2.0}, output_tokens={"kind": "fixed", "value": 3}
    )
    assert replaced.arrivals == Gamma(rate=6.0, cv=2.0) and replaced.output_tokens == Fixed(value=3)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"preset": "caht"}, "workload.preset: unknown preset 'caht'; did you mean chat? valid: chat, code, "),
        ({"preset": None}, "workload.preset: unknown preset null; valid: chat, code, "),
        ({"preset": "chat", "rate": -1}, "workload.arrivals.rate: must be a finite number greater than 0, not -1"),
        ({"preset": "chat", "rats": 3}, "workload.rats: unknown key; "),
        ({"preset": "chat", "arrivals": 3}, "workload.arrivals: must be a section with a kind, not 3"),
    ],
)
def test_bad_preset(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        workload(**keys)
    assert str(raised.value).startswith(message)


def test_overrides_change_a_preset(tmp_path: Any) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        "workload: {preset: chat}\ncluster:\n  instances:\n    - latency: {kind: linear, base_s: 0.01}\n"
        "      scheduler: {kind: vllm_v1, async_scheduling: false}\n"
    )
    read = load_scenario(file, ["workload.rate=9", "workload.num_requests=7"]).workload
    assert isinstance(read, Synthetic) and read.arrivals == Poisson(rate=9.0) and read.num_requests == 7
    assert load_scenario(file, ["workload.arrivals.rate=2"]).workload.arrivals == Poisson(rate=2.0)  # type: ignore[union-attr]


def test_the_schema_knows_presets() -> None:
    scenario = {"workload": {"preset": "chat", "rate": 4}, "cluster": CLUSTER}
    jsonschema.validate(scenario, scenario_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**scenario, "workload": {"preset": "caht"}}, scenario_schema())


@pytest.mark.parametrize("preset", PRESETS)
def test_a_starter_is_a_scenario_that_the_fleet_can_serve(preset: str, tmp_path: Any) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(starter(preset, "s.yaml"))
    read = load_scenario(file)
    assert read.workload == workload(preset=preset) and read.name == preset and read.slo.limits
    longest = read.workload.prompt_tokens.max + read.workload.output_tokens.max  # type: ignore[union-attr]
    assert longest <= read.cluster.instances[0].scheduler.max_model_len  # type: ignore[attr-defined]
    assert longest <= 16 * read.cluster.instances[0].kv_cache.num_blocks  # type: ignore[operator]
    assert max(map(len, file.read_text().splitlines())) <= 140
