"""`jaxsim run` without a file."""

import json
from pathlib import Path

import pytest

import jaxsim
from jaxsim.cli.main import main
from jaxsim.config.io import load_scenario, parse_scenario
from jaxsim.config.presets import PRESETS
from jaxsim.config.quick import quick_sections

LINE = "run --model llama-3.1-8b --hardware h100-sxm --rate 6 --num-requests 40 --seeds 2"


def test_prints_a_scenario_that_gives_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(LINE.split()) == 0
    scenario, blank, table = capsys.readouterr().out.partition("\n\n")
    assert blank and scenario.startswith("# The scenario; ") and "TTFT" in table
    file = tmp_path / "kept.yaml"
    file.write_text(scenario)
    kept = load_scenario(file)
    assert kept == jaxsim.quick_scenario("llama-3.1-8b", "h100-sxm", 6, num_requests=40, seeds=2)
    assert main(["run", str(file)]) == 0
    assert capsys.readouterr().out == table


def test_json_embeds_the_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    line = f"{LINE} --workload code --prompt-tokens 64 --instances 2 --set scheduler.max_num_seqs=8 --json"
    assert main(line.split()) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["num_completed"] == 80
    scenario = parse_scenario(summary["scenario"])
    [group] = scenario.cluster.instances
    assert group.count == 2 and group.scheduler.max_num_seqs == 8
    assert summary["scenario"]["workload"]["prompt_tokens"] == {"kind": "fixed", "value": 64}
    assert summary["scenario"]["workload"]["output_tokens"] == PRESETS["code"].workload["output_tokens"]
    assert summary["scenario"]["workload"]["arrivals"]["rate"] == 6


@pytest.mark.parametrize(
    ("model", "hardware", "choices", "devices"),
    [
        ("llama-3.1-8b", "h100-sxm", {}, 1),
        ("llama-3.1-70b", "h100-sxm", {}, 2),
        ("llama-3.1-70b", "h100-sxm", {"workload": "rag"}, 4),  # the longest request needs the memory
        ("llama-3.1-70b", "h200-sxm", {"dtype": "fp8"}, 1),
        ("llama-3.1-8b", "rtx-4090", {"tensor_parallel": 4}, 4),
    ],
)
def test_fewest_devices_that_hold_it(model: str, hardware: str, choices: dict, devices: int) -> None:
    [group] = quick_sections(model, hardware, **choices)["cluster"]["instances"]
    assert group["latency"]["tensor_parallel"] == devices


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_makes_a_scenario(preset: str) -> None:
    scenario = jaxsim.quick_scenario("llama-3.1-8b", "h200-sxm", workload=preset)
    arrivals = PRESETS[preset].workload["arrivals"]
    assert scenario.workload.arrivals.rate == arrivals["rate"]
    longest = sum(PRESETS[preset].workload[name]["max"] for name in ("prompt_tokens", "output_tokens"))
    assert scenario.cluster.instances[0].scheduler.max_model_len >= longest


def test_batches_of_large_and_other_accelerators() -> None:
    for hardware, tokens in (("h100-sxm", 8192), ("a100-sxm-80g", 2048), ("l40s", 2048)):
        [group] = quick_sections("llama-3.1-8b", hardware)["cluster"]["instances"]
        assert group["scheduler"]["max_num_batched_tokens"] == tokens
