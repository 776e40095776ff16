"""Scenario files: YAML 1.2 and TOML, what they may look like and what is said of those that cannot be read."""

from pathlib import Path

import pytest

from jaxsim.config.errors import ScenarioError
from jaxsim.config.io import load_scenario, parse_scenario
from jaxsim.config.text import parse_yaml, read_file
from tests.config.test_bad_input import SCENARIO
from tests.snapshots import check_snapshot

YAML = """\
workload:
  kind: synthetic
  num_requests: 1e2
  arrivals: {kind: poisson, rate: 4}
  prompt_tokens: {kind: fixed, value: 100}
  output_tokens: {kind: uniform, min: 2, max: 20}
cluster:
  instances:
    - latency: {kind: linear, base_s: 0.005, per_token_s: 2e-05}
      scheduler: {kind: vllm_v1, async_scheduling: false}
      kv_cache: {num_blocks: 1000}
"""

TOML = """\
[workload]
kind = "synthetic"
num_requests = 100
arrivals = { kind = "poisson", rate = 4 }
prompt_tokens = { kind = "fixed", value = 100 }
output_tokens = { kind = "uniform", min = 2, max = 20 }

[[cluster.instances]]
latency = { kind = "linear", base_s = 0.005, per_token_s = 2e-05 }
scheduler = { kind = "vllm_v1", async_scheduling = false }
kv_cache = { num_blocks = 1000 }
"""


def saved(folder: Path, text: str | bytes, name: str = "scenario.yaml") -> Path:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("scenario.yaml", YAML),
        ("scenario.toml", TOML),
        ("crlf.yaml", YAML.replace("\n", "\r\n")),
        ("bom.yaml", "\ufeff" + YAML),
        ("no-final-newline.yml", YAML.rstrip()),
    ],
)
def test_all_ways_to_write_it_are_equal(tmp_path: Path, name: str, text: str) -> None:
    assert load_scenario(saved(tmp_path, text, name)) == parse_scenario(SCENARIO)


def test_numbers_and_texts_of_yaml_1_2() -> None:
    text = "[2e-05, 2.5E+3, .5, -3., 1e6, 010, no, on, 1:30, 2024-01-01, 1_000, 0x10, '2', ~, true, .inf]"
    assert parse_yaml(text, "text") == [
        *(2e-05, 2500.0, 0.5, -3.0, 1e6, 10),
        *("no", "on", "1:30", "2024-01-01", "1_000", "0x10", "2"),
        *(None, True, float("inf")),
    ]


def test_numbers_that_other_yaml_readers_give_as_text() -> None:
    data = {**SCENARIO, "workload": {**SCENARIO["workload"], "num_requests": "1e2"}}
    data["workload"]["arrivals"] = {"kind": "poisson", "rate": "4.0e+00"}
    assert parse_scenario(data) == parse_scenario(SCENARIO)


def test_shared_sections_may_be_overridden_apart(tmp_path: Path) -> None:
    text = YAML.replace("    - latency", "    - &group\n      latency") + "    - *group\n    - {<<: *group, count: 3}\n"
    file = saved(tmp_path, text)
    plain = load_scenario(file).cluster.instances
    assert plain[0] == plain[1] and plain[2].count == 3
    changed = load_scenario(file, ["cluster.instances.1.kv_cache.num_blocks=7"]).cluster.instances
    assert [group.kv_cache.num_blocks for group in changed] == [1000, 7, 1000]


def test_paths_are_relative_to_the_file_and_in_overrides_to_the_current_folder(tmp_path: Path) -> None:
    text = YAML.replace("{kind: fixed, value: 100}", "{kind: empirical, path: lengths.txt}")
    workload = load_scenario(
        saved(tmp_path, text), ["workload.output_tokens={kind: empirical, path: out.txt}"]
    ).workload
    assert workload.prompt_tokens.path == str(tmp_path / "lengths.txt")
    assert workload.output_tokens.path == "out.txt"


def test_absolute_paths_stay(tmp_path: Path) -> None:
    text = YAML.replace("{kind: fixed, value: 100}", "{kind: empirical, path: /data/lengths.txt}")
    assert load_scenario(saved(tmp_path, text)).workload.prompt_tokens.path == "/data/lengths.txt"


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("empty file", ""),
        ("a list", "- 1\n- 2\n"),
        ("a word", "hello"),
        ("a key twice", "name: a\nworkload: {kind: trace, path: a.csv, path: b.csv}\n"),
        ("no closing bracket", "workload: {kind: synthetic\nname: x\n"),
        ("tabs", "workload:\n\tkind: synthetic\n"),
        ("two documents", "name: a\n---\nname: b\n"),
        ("unknown alias", "name: *who\n"),
        ("a Python object", "name: !!python/object/apply:os.system ['true']\n"),
        ("a number tag on a word", "name: !!int many\n"),
        ("a control character", "name: \0\n"),
        ("a list as key", "? [a]\n: 1\n"),
        ("too deep", "[" * 10_000),
        ("latin-1", "name: caf\xe9\n".encode("latin-1")),
        ("a section that holds itself", "workload: &w\n  kind: synthetic\n  arrivals: *w\n"),
        ("a key in the wrong place", YAML + "seeds: 3\n"),
    ],
)
def test_files_that_are_no_scenario(tmp_path: Path, title: str, text: str | bytes) -> None:
    check_error(title, saved(tmp_path, text))


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("TOML syntax", "name = \n"),
        ("a TOML key twice", "name = 'a'\nname = 'b'\n"),
        ("a TOML date", TOML.replace("100", "2024-01-01", 1)),
        ("TOML too deep", "a = " + "[" * 10_000),
    ],
)
def test_toml_files_that_are_no_scenario(tmp_path: Path, title: str, text: str) -> None:
    check_error(title, saved(tmp_path, text, "scenario.toml"))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    check_error("no such file", tmp_path / "missing.yaml")
    check_error("a folder", tmp_path)


def test_many_aliases_take_no_memory(tmp_path: Path) -> None:
    """Each level holds the one below nine times: 9^20 entries if they were copied out."""
    levels = [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 21)]
    check_error("a billion aliases", saved(tmp_path, "\n".join(["a0: &a0 [x]", *levels])))


def test_read_file_gives_plain_data(tmp_path: Path) -> None:
    assert read_file(saved(tmp_path, "a: [1, {b: null}]")) == {"a": [1, {"b": None}]}


def check_error(title: str, file: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(file)
    message = str(caught.value).replace(str(file), file.name if file.suffix else "FOLDER")
    check_snapshot(Path(__file__).with_suffix(".txt"), title, message)
