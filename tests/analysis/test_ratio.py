"""Splits of a budget whose best is known by hand, with what gives way first."""

import json
from typing import Any

import pytest

from jaxsim.analysis.ratio import ratio
from jaxsim.analysis.ratio_answer import RatioAnswer, RatioPoint
from jaxsim.analysis.scenarios import changed
from jaxsim.analysis.splits import splits_of
from jaxsim.config.io import parse_scenario
from jaxsim.config.schema import Scenario

SLO = {"ttft_s": {"p90": 0.3}, "tpot_s": {"p90": 0.06}, "e2e_s": {"p90": 2.0}}


def toy(transfer_s: float = 1e-3, decodes: int = 8, slo: dict[str, Any] | None = None) -> Scenario:
    """A prompt takes 1/10 s of a prefill instance; ten iterations of 1/20 s follow, in memory for some at a time.

    So a prefill instance bears 10 requests/s, a decode instance 2 for each that it has room for. A colocated one adds
    up the times. Arrivals are evenly spaced: all is well until the first queue grows. A link between two instances
    carries one transfer at a time.
    """
    groups = [
        {
            "role": role,
            "latency": {"kind": "linear", "base_s": base_s, "per_token_s": token_s},
            "scheduler": {"kind": "vllm_v1", "max_num_seqs": seqs, "async_scheduling": False},
            "kv_cache": {"num_blocks": 7 * decodes, "block_size": 16},
        }
        for role, base_s, token_s, seqs in (
            ("prefill", 0.0, 1e-3, 1),
            ("decode", 0.05, 0.0, 64),
            ("unified", 0.05, 1e-3, 64),
        )
    ]
    return parse_scenario(
        {
            "workload": {
                "kind": "synthetic",
                "num_requests": 250,
                "arrivals": {"kind": "constant", "rate": 1.0},
                "prompt_tokens": {"kind": "fixed", "value": 100},
                "output_tokens": {"kind": "fixed", "value": 11},
            },
            "slo": slo or SLO,
            "cluster": {
                "instances": groups,
                "kv_transfer": {"latency_s": transfer_s, "contention": "link"},
                "decode_router": {"kind": "round_robin"},
            },
        }
    )


def solved(scenario: Scenario) -> RatioAnswer:
    return ratio(scenario, 4, horizon="terminating")


def point(found: RatioAnswer, prefill: int) -> RatioPoint:
    return next(of for of in found.points if of.split.count("prefill") == prefill)


@pytest.fixture(scope="module")
def found() -> RatioAnswer:
    return solved(toy())


def test_the_best_split_is_known_and_pays(found: RatioAnswer) -> None:
    """2:2 bears 20 (prefill), 3:1 16 (decode) and 1:3 10; prompts beside decodes stretch colocated TPOT earlier."""
    assert found.best.split.label == "2 prefill : 2 decode"
    assert found.best.rate_per_s == pytest.approx(20, rel=0.03)
    assert [point(found, count).split.bound_per_s for count in (1, 2, 3)] == pytest.approx([10, 20, 16], rel=0.03)
    assert 12 < point(found, 3).order < 16
    assert point(found, 3).side == "decode" and point(found, 1).look == "bound"
    assert found.best.saturation is not None and found.best.saturation.bottleneck == "prefill queue"
    assert found.best.loads["prefill"] == pytest.approx(1, rel=0.04)
    assert found.colocated is not None and found.colocated.saturation is not None
    assert found.colocated.saturation.bottleneck == "iterations with prompts"
    assert found.gain is not None and found.gain[0] > 0.1
    assert found.sentences[0].startswith("Disaggregation pays: 2 prefill : 2 decode bears ")
    assert "requests queue at the prefill instances" in found.sentences[1]


def test_memory_of_the_decode_instances_gives_way() -> None:
    """With room for three requests a decode instance bears 6: 2:2 bears up to 12 then, 1:3 still 10."""
    found = solved(toy(decodes=3))
    assert found.best.split.label == "2 prefill : 2 decode" and found.best.side == "decode"
    assert found.best.saturation is not None and found.best.saturation.bottleneck == "decode memory"
    assert 10.2 < found.best.order < 12
    assert point(found, 1).rate_per_s == pytest.approx(10, rel=0.03) and point(found, 1).side == "prefill"


def test_a_slow_link_gives_way_and_colocated_instances_win() -> None:
    """Transfers of half a second: 6 requests/s over three links. Taking turns, two and two instances use only two."""
    found = solved(toy(transfer_s=0.5, decodes=20, slo={"e2e_s": {"p90": 2.0}}))
    assert found.best.split.count("prefill") in (1, 3)
    assert found.best.rate_per_s == pytest.approx(6, rel=0.05) and point(found, 2).order < 5
    assert found.best.saturation is not None and found.best.saturation.bottleneck == "link"
    assert found.best.split.bound_by == "link" and "transfers queue for the link" in " ".join(found.sentences)
    assert found.sentences[0].startswith("Disaggregation does not pay: the best split, ")
    assert found.gain is not None and found.gain[0] < -0.3


def test_a_promise_that_is_broken_at_any_rate_says_what_takes_long() -> None:
    found = solved(toy(slo={"e2e_s": {"p90": 0.4}}))
    assert found.best.rate_per_s is None and found.gain is None
    assert found.sentences[0] == "No use of 4 accelerators keeps the SLO."
    assert found.best.saturation is not None and found.best.saturation.bottleneck == "decode iterations"
    assert "keeps P90 E2E ≤ 0.4 s at no rate: iterations of the decode instances" in found.sentences[1]


def test_repeated_it_is_the_same_to_the_last_bit(found: RatioAnswer) -> None:
    again = solved(toy())
    assert again.to_json() == found.to_json() and again.to_csv() == found.to_csv()


def test_the_answer_as_data_and_picture(found: RatioAnswer) -> None:
    content = json.loads(found.to_json())
    assert content["best"]["prefill"] == 2 and content["best"]["gives_way"] == "prefill queue"
    assert content["colocated"]["colocated"] == 4 and content["gain"] == pytest.approx(found.gain[0])  # type: ignore[index]
    assert [row["prefill"] + row["decode"] + row["colocated"] for row in found.rows] == [4, 4, 4, 4]
    labels = {text.get_text() for text in found.plot().get_legend().get_texts()}  # type: ignore[union-attr]
    assert labels == {
        "prefill gives way",
        "decode gives way",
        "not simulated: at most, in the mean",
        "4 colocated (chunks of 2048)",
    }


def roofline(**group: Any) -> Scenario:
    return changed(
        toy(),
        {
            "cluster.instances": [
                {
                    "latency": {
                        "kind": "roofline",
                        "model": "llama-3.1-70b",
                        "hardware": "h100-sxm",
                        "tensor_parallel": 4,
                    },
                    "kv_cache": {"gpu_memory_utilization": 0.9},
                    **group,
                }
            ]
        },
    )


def test_every_layout_that_the_model_fits_in_is_tried() -> None:
    """One accelerator has less memory than 140 GB of weights."""
    splits = splits_of(roofline(), 8, layouts=[1, 2, 4, 8])
    assert {split.layouts for split in splits} == {(8,), (4,), (2,), (2, 2), (2, 4), (4, 2), (4, 4)}
    halves = [(split.count("prefill"), split.count("decode")) for split in splits if split.layouts == (2, 2)]
    assert halves == [(1, 3), (2, 2), (3, 1)] and all(split.accelerators <= 8 for split in splits)


def test_chunks_of_colocated_instances() -> None:
    splits = splits_of(roofline(latency={"kind": "linear", "base_s": 0.01}, kv_cache={}), 2, chunks=[256, 1024])
    assert [split.label for split in splits][:2] == ["2 colocated (chunks of 256)", "2 colocated (chunks of 1024)"]
    assert splits[2].label == "1 prefill : 1 decode"


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"slo": {}}, {}, "slo: is needed"),
        ({"cluster.kv_transfer": {}}, {}, "cluster.kv_transfer: is needed"),
        ({}, {"accelerators": 1}, "accelerators must be enough for a prefill and a decode instance: 2, not 1"),
        ({}, {"accelerators": 0}, "accelerators must be 1 or greater, not 0"),
        ({}, {"layouts": [1, 2]}, "cluster.instances.latency: must be of kind roofline"),
        ({}, {"layouts": [0]}, "layouts must be 1 or greater, not 0"),
        ({"workload.arrivals": {"kind": "closed_loop", "concurrency": 4}}, {}, "has no arrival rate"),
        ({"cluster.instances.1.role": "prefill", "cluster.instances.0.role": "decode"}, {}, None),
        ({"cluster.instances.2.role": "decode"}, {}, "cluster.instances.2: is another group of decode instances"),
    ],
)
def test_what_is_missing_is_named(changes: dict[str, Any], options: dict[str, Any], message: str | None) -> None:
    scenario = changed(toy(), changes)
    if message is None:  # the order of groups does not matter
        assert [split.layouts for split in splits_of(scenario, 2)] == [(1,), (1, 1)]
        return
    with pytest.raises(ValueError, match=message):
        ratio(scenario, **{"accelerators": 4, **options})


def test_a_budget_that_ends_too_early_is_no_answer() -> None:
    found = ratio(toy(), 4, horizon="terminating", max_requests=1000)
    assert found.sentences[0] == "No answer: 2 prefill : 2 decode was not simulated."
    assert any("budget of requests ended" in warning for warning in found.warnings)


@pytest.mark.slow
def test_in_a_steady_state_no_split_bears_more_than_its_instances() -> None:
    """TTFT counts the queue for a decode instance only once it holds up prefills."""
    scenario = changed(toy(slo={"ttft_s": {"p90": 0.5}}), {"workload.arrivals": {"kind": "poisson", "rate": 1.0}})
    found = ratio(scenario, 4, precision=0.1)
    assert found.num_requests == 1000 and found.bias is not None
    assert found.best.split.count("prefill") == 2 and 10 < found.best.order < 20
    assert found.best.interval is not None and found.best.interval.high < 1.1 * found.best.order
    assert point(found, 3).order < 17 and point(found, 3).side == "decode"
