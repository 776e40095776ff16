"""Models and accelerators in scenarios: by name, inline, from a file; and the KV blocks that follow from them."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import jaxsim
from jaxsim.config.errors import ScenarioError
from jaxsim.latency import Roofline
from tests.specs.test_hugging_face import LLAMA

SCENARIO: dict[str, Any] = {
    "workload": {
        "kind": "synthetic",
        "num_requests": 3,
        "arrivals": {"kind": "poisson", "rate": 4.0},
        "prompt_tokens": {"kind": "fixed", "value": 10},
        "output_tokens": {"kind": "fixed", "value": 3},
    },
    "cluster": {
        "instances": [
            {
                "latency": {"kind": "roofline", "model": "llama-3.1-8b", "hardware": "h100-sxm"},
                "scheduler": {"kind": "vllm_v1", "async_scheduling": False},
                "kv_cache": {"gpu_memory_utilization": 0.9},
            }
        ]
    },
}
INLINE = {"bf16_flops_per_s": "1e14", "memory_bytes_per_s": "1e12", "memory_bytes": "40e9"}


def with_latency(**latency: Any) -> dict[str, Any]:
    data = copy.deepcopy(SCENARIO)
    data["cluster"]["instances"][0]["latency"].update(latency)
    return data


def clock_of(scenario: jaxsim.Scenario) -> Roofline:
    clock = scenario.cluster.instances[0].latency
    assert isinstance(clock, Roofline)
    return clock


def test_names() -> None:
    clock = clock_of(jaxsim.parse_scenario(SCENARIO))
    assert (clock.spec.name, clock.device.name) == ("llama-3.1-8b", "h100-sxm")


def test_inline() -> None:
    assert clock_of(jaxsim.parse_scenario(with_latency(hardware=INLINE))).device.memory_bytes == 40e9


def test_files_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "my-llama").mkdir()
    (tmp_path / "my-llama" / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "my-gpu.yaml").write_text(yaml.dump(INLINE))
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.dump(with_latency(model="my-llama/config.json", hardware="my-gpu.yaml")))
    clock = clock_of(jaxsim.load_scenario(file))
    assert (clock.spec.name, clock.spec.hidden) == ("my-llama", 4096)
    assert (clock.device.name, clock.device.bf16_flops_per_s) == ("my-gpu", 1e14)
    file.write_text(yaml.dump(with_latency(model="./my-llama", hardware="my-gpu.yaml")))
    assert clock_of(jaxsim.load_scenario(file)).spec == clock.spec


def test_what_is_written_down_is_read_back_equal() -> None:
    scenario = jaxsim.parse_scenario(
        with_latency(efficiency={"gemm": {"compute": 0.5}}, dtype="fp8", tensor_parallel=2)
    )
    dumped = jaxsim.dump_scenario(scenario)
    assert dumped["cluster"]["instances"][0]["latency"]["model"]["hidden"] == 4096
    assert jaxsim.parse_scenario(json.loads(json.dumps(dumped))) == scenario


def test_blocks_follow_from_the_memory() -> None:
    few, many = (
        jaxsim.parse_scenario(with_latency(hardware=device)).cluster.instances[0].num_blocks
        for device in ("h100-sxm", "h200-sxm")
    )
    assert few is not None and many is not None and few < many
    data = copy.deepcopy(SCENARIO)
    data["cluster"]["instances"][0]["kv_cache"]["num_blocks"] = 7
    assert jaxsim.parse_scenario(data).cluster.instances[0].num_blocks == 7, "what is given holds"
    data["cluster"]["instances"][0]["kv_cache"] = {}
    assert jaxsim.parse_scenario(data).cluster.instances[0].num_blocks is None


def test_a_larger_token_budget_leaves_fewer_blocks() -> None:
    data = copy.deepcopy(SCENARIO)
    before = jaxsim.parse_scenario(data).cluster.instances[0].num_blocks
    data["cluster"]["instances"][0]["scheduler"]["max_num_batched_tokens"] = 32768
    after = jaxsim.parse_scenario(data).cluster.instances[0].num_blocks
    assert before is not None and after is not None and after < before


def test_a_run_says_how_many_blocks_fit() -> None:
    manifest = jaxsim.run(jaxsim.parse_scenario(SCENARIO)).manifest
    assert manifest["notices"] == ["cluster.instances.0: 28,459 KV blocks of 16 tokens fit"]


@pytest.mark.parametrize(
    ("latency", "key", "problem"),
    [
        ({"model": "lama"}, "latency.model", "model 'lama' is not known; "),
        ({"model": 7}, "latency.model", "must be a section of keys, not 7; valid keys: name, layers"),
        ({"model": {"layers": 2}}, "latency.model.hidden", "is required (width of the residual stream)"),
        ({"hardware": {**INLINE, "intra_node": {"bytes_per_s": 0}}}, "latency.hardware.intra_node", ""),
        ({"hardware": "nowhere.yaml"}, "latency.hardware", "nowhere.yaml: no such file or directory"),
        ({"dtype": "fp3"}, "latency.dtype", ""),
        ({"efficiency": {"gemm": {"compute": 2}}}, "latency.efficiency.gemm.compute", "must be a share in (0, 1], not"),
        ({"tensor_parallel": 5}, "latency.tensor_parallel", "must divide the 32 heads of llama-3.1-8b, not 5"),
        ({"model": "llama-3.1-70b"}, "kv_cache.gpu_memory_utilization", "llama-3.1-70b leaves no memory for KV"),
    ],
)
def test_mistakes(latency: dict[str, Any], key: str, problem: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        jaxsim.parse_scenario(with_latency(**latency))
    assert caught.value.key.startswith(f"cluster.instances.0.{key}")
    assert caught.value.problem.startswith(problem)


def test_memory_needs_a_model() -> None:
    data = copy.deepcopy(SCENARIO)
    data["cluster"]["instances"][0]["latency"] = {"kind": "linear", "base_s": 1e-3}
    with pytest.raises(ScenarioError, match="needs a latency with a model and hardware") as caught:
        jaxsim.parse_scenario(data)
    assert caught.value.key == "cluster.instances.0.kv_cache.gpu_memory_utilization"


def test_the_front_end_holds_requests_back() -> None:
    def finished(front_end_s: float) -> Any:
        scenario = jaxsim.parse_scenario(with_latency(front_end_s=front_end_s))
        requests = jaxsim.run(scenario).requests
        assert requests is not None
        assert (requests.queue_s >= front_end_s - 1e-9).all()
        return requests

    late, prompt = finished(4.7e-3), finished(0.0)
    np.testing.assert_array_equal(late.arrival_s, prompt.arrival_s)
    np.testing.assert_allclose(late.ttft_s - prompt.ttft_s, 4.7e-3, rtol=1e-9)
    np.testing.assert_allclose(late.tpot_s, prompt.tpot_s, rtol=1e-9)
