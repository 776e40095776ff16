"""The export under vLLM's names: valid Prometheus text, the same numbers as the table."""

import json
import math
import re

import numpy as np

from jaxsim.metrics.vllm_names import families, plain, prometheus_text
from tests.metrics.tables import accumulated, table
from tests.report.results import HOSTILE, requests_of, result_of

LINE = re.compile(r'(?P<name>[a-zA-Z_:][\w:]*)\{(?P<labels>(?:\w+="(?:[^"\\\n]|\\.)*",?)*)\} (?P<value>\S+)')


def samples(text: str) -> dict[str, list[tuple[str, float]]]:
    """Labels and values by name; every line is checked."""
    found: dict[str, list[tuple[str, float]]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            match = LINE.fullmatch(line)
            assert match, line
            found.setdefault(match["name"], []).append((match["labels"], float(match["value"])))
    return found


def test_histograms_count_the_measured_requests_of_each_engine() -> None:
    result = result_of()
    found = samples(result.to_prometheus())
    ttft = result.requests.ttft_s[:, 20:]
    for engine in (0, 1):
        own = ttft[result.requests.instance[:, 20:] == engine]
        [count] = [
            value for labels, value in found["vllm:time_to_first_token_seconds_count"] if f'engine="{engine}"' in labels
        ]
        assert count == len(own)
        buckets = [
            (labels, value)
            for labels, value in found["vllm:time_to_first_token_seconds_bucket"]
            if f'engine="{engine}"' in labels
        ]
        for labels, value in buckets:
            bound = float(re.search(r'\ble="(.*?)"', labels)[1].replace("+Inf", "inf"))
            assert value == np.sum(own <= bound)
        assert buckets[-1][1] == count and math.isclose(
            own.sum(),
            [v for labels, v in found["vllm:time_to_first_token_seconds_sum"] if f'engine="{engine}"' in labels][0],
        )


def test_counters_and_gauges() -> None:
    result = result_of()
    found = samples(result.to_prometheus())
    measured = result.requests.block(requests=slice(20, None))
    assert sum(value for _, value in found["vllm:generation_tokens_total"]) == measured.output_tokens.sum()
    assert sum(value for _, value in found["vllm:num_preemptions_total"]) == measured.preemptions.sum()
    assert sum(value for _, value in found["vllm:request_success_total"]) == 4 * 280
    assert found["vllm:kv_cache_usage_perc"] == [('model_name="a service"', 0.5)]
    assert 0 < found["vllm:num_requests_running"][0][1] < 100


def test_every_metric_is_typed_and_explained_before_its_samples() -> None:
    lines = result_of().to_prometheus().splitlines()
    for place, line in enumerate(lines):
        if line.startswith("# TYPE"):
            _, _, name, kind = line.split()
            assert lines[place - 1].startswith(f"# HELP {name} ") and lines[place + 1].startswith(name)
            assert kind in ("counter", "gauge", "histogram") and (kind != "counter" or name.endswith("_total"))


def test_labels_are_escaped() -> None:
    text = result_of(name=f"{HOSTILE}\n\\").to_prometheus()
    assert '\\"quotes\\"' in text and "\\n\\\\" in text
    assert samples(text)


def test_json_says_the_same() -> None:
    result = result_of()
    data = json.loads(json.dumps(plain(result.vllm_metrics()), allow_nan=False))
    assert data["schema_version"] == 1
    text = samples(result.to_prometheus())
    flat = [(sample["name"], sample["value"]) for metric in data["metrics"] for sample in metric["samples"]]
    assert flat == [(name, value) for name, of in text.items() for _, value in of] or sorted(flat) == sorted(
        (name, value) for name, of in text.items() for _, value in of
    )


def test_models_are_named_by_group_and_unlimited_memory_has_no_gauge() -> None:
    requests = requests_of(seeds=1, requests=40, instances=2)
    scenario = {
        "name": "fleet",
        "cluster": {
            "instances": [
                {"count": 1, "latency": {"model": {"name": "a"}}},
                {"count": 1, "latency": {"kind": "linear"}},
            ]
        },
    }
    summary = accumulated(requests, units="batches").summary() | {"kv_utilisation": None}
    found = families(requests, summary, scenario)
    assert "vllm:kv_cache_usage_perc" not in [family.name for family in found]
    assert {(s.labels["model_name"], s.labels["engine"]) for s in found[0].samples} == {("a", "0"), ("fleet", "1")}
    assert prometheus_text(families(table(arrival_s=[0.0]), summary, scenario))
