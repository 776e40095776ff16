"""`--set key.path=value`."""

from pathlib import Path
from typing import Any

import pytest

from jaxsim.config.errors import ScenarioError
from jaxsim.config.io import dump_scenario, load_scenario
from tests.config.test_files import YAML, saved
from tests.snapshots import check_snapshot


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return saved(tmp_path, YAML)


@pytest.fixture
def two_groups(tmp_path: Path) -> Path:
    return saved(tmp_path, YAML.replace("    - latency", "    - &group\n      latency") + "    - *group\n")


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("name=my run", ["name"], "my run"),
        ("workload.arrivals.rate=6", ["workload", "arrivals", "rate"], 6.0),
        ("workload.arrivals.rate=2e-05", ["workload", "arrivals", "rate"], 2e-05),
        ("workload.num_requests=1e4", ["workload", "num_requests"], 10_000),
        ("monte_carlo.seeds=8", ["monte_carlo", "seeds"], 8),
        ("slo.ttft_s.p99=1", ["slo", "ttft_s", "p99"], 1.0),
        ("slo={ttft_s: 0.5, percentile: 90}", ["slo", "percentile"], 90.0),
        ("engine.leap=false", ["engine", "leap"], False),
        ("cluster.router.kind=random", ["cluster", "router", "kind"], "random"),
        ("cluster.instances.0.count=4", ["cluster", "instances", 0, "count"], 4),
        ("count=4", ["cluster", "instances", 0, "count"], 4),
        ("scheduler.max_num_seqs=64", ["cluster", "instances", 0, "scheduler", "max_num_seqs"], 64),
        ("kv_cache.num_blocks=100", ["cluster", "instances", 0, "kv_cache", "num_blocks"], 100),
        ("kv_cache.num_blocks=null", ["cluster", "instances", 0, "kv_cache", "num_blocks"], None),
        ("kv_cache.num_blocks=", ["cluster", "instances", 0, "kv_cache", "num_blocks"], None),
        ("latency.base_s=1", ["cluster", "instances", 0, "latency", "base_s"], 1.0),
        ("workload.arrivals={kind: gamma, rate: 4, cv: 2}", ["workload", "arrivals", "cv"], 2.0),
    ],
)
def test_value(file: Path, override: str, path: list[Any], value: Any) -> None:
    found: Any = dump_scenario(load_scenario(file, [override]))
    for key in path:
        found = found[key]
    assert found == value and type(found) is type(value)


def test_only_that_key_changes(file: Path) -> None:
    changed = dump_scenario(load_scenario(file, ["scheduler.max_num_seqs=64"]))
    changed["cluster"]["instances"][0]["scheduler"]["max_num_seqs"] = 256
    assert changed == dump_scenario(load_scenario(file))


def test_the_last_one_wins(file: Path) -> None:
    assert load_scenario(file, ["workload.arrivals.rate=5", "workload.arrivals.rate=6"]).workload.arrivals.rate == 6


def test_each_group_can_be_changed(two_groups: Path) -> None:
    scenario = load_scenario(two_groups, ["cluster.instances.1.count=3"])
    assert [group.count for group in scenario.cluster.instances] == [1, 3]


@pytest.mark.parametrize(
    "overrides",
    [
        ["scheduler.max_num_seqs=many"],
        ["scheduler.max_num_seq=64"],
        ["schedule.max_num_seqs=64"],
        ["kv_transfer.latency=1"],
        ["workload.arrivals.kind=poison"],
        ["workload.arrivals.rate.mean=3"],
        ["cluster.instances.1.count=3"],
        ["cluster.instances.last.count=3"],
        ["cluster.instances=[]"],
        ["workload="],
        ["workload.arrivals.rate"],
        ["=3"],
        ["workload..rate=3"],
        ["name=[1"],
        ["workload.output_tokens.min=50"],
        ["monte_carlo.seeds=2", "workload.output_tokens.min=50", "engine.leap=true"],
    ],
    ids=" ".join,
)
def test_message(file: Path, overrides: list[str]) -> None:
    check_error(file, overrides)


def test_short_form_needs_one_group(two_groups: Path) -> None:
    check_error(two_groups, ["scheduler.max_num_seqs=64"], "two groups: ")


def test_mistakes_of_the_file_are_still_the_files(tmp_path: Path) -> None:
    check_error(saved(tmp_path, YAML.replace("rate: 4", "rate: -4")), ["name=x"], "a rate of -4: ")


def check_error(file: Path, overrides: list[str], title: str = "") -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(file, overrides)
    message = str(caught.value).replace(str(file), file.name)
    check_snapshot(Path(__file__).with_suffix(".txt"), title + " ".join(overrides), message)
