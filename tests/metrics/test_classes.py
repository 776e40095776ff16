"""Classes of requests: each is summarised as if it were alone, and held to its own SLO."""

import dataclasses

import numpy as np
import pytest

from jaxsim.metrics import RequestTable, ServiceClass
from jaxsim.specs.slo import Slo
from tests.metrics.tables import accumulated, random_table

CHAT, BATCH = ServiceClass("chat", Slo(ttft_s=0.25, tpot_s=0.03)), ServiceClass("batch", Slo(e2e_s={"p90": 1.5}))


def mixed(seeds: int, requests: int, first_seed: int = 0) -> RequestTable:
    rng = np.random.default_rng(first_seed)
    table = random_table(rng, seeds, requests, first_seed)
    return dataclasses.replace(table, class_index=(rng.random(table.arrival_s.shape) < 0.3).astype(np.int32))


@pytest.mark.parametrize("units", ["seeds", "batches"])
@pytest.mark.parametrize("exact_limit", [10**9, 0])
def test_latencies_are_those_of_the_requests_of_the_class(units: str, exact_limit: int) -> None:
    table = mixed(1 if units == "batches" else 6, 400)
    settings = {"slo": Slo(), "warmup_requests": 50, "units": units, "exact_limit": exact_limit}
    found = accumulated(table, classes=(CHAT, BATCH), **settings).summary()["classes"]
    for place, name in enumerate(("chat", "batch")):
        here = table.class_index[:, 50:] == place
        for metric in ("ttft_s", "tpot_s", "e2e_s", "queue_s"):
            values = getattr(table, metric)[:, 50:][here]
            values = values[~np.isnan(values)]
            tolerance = 1e-12 if exact_limit else 3e-3
            assert found[name][metric]["count"] == len(values)
            assert found[name][metric]["mean"] == pytest.approx(values.mean())
            for percent in (50, 90, 99):
                absolute = 1e-9 if exact_limit else 1e-3
                expected = pytest.approx(np.percentile(values, percent), rel=tolerance, abs=absolute)
                assert found[name][metric][f"p{percent}"] == expected
                low, high = found[name][metric][f"p{percent}_ci"]
                assert low <= high
        assert "itl_s" not in found[name] and found[name]["num_measured"] == here.sum()


def test_each_class_is_held_to_its_own_promise() -> None:
    table = mixed(6, 400)
    summary = accumulated(table, classes=(CHAT, BATCH), slo=Slo()).summary()
    batch = table.class_index == 1
    tpot_ok = ~(table.tpot_s > 0.03)
    good = np.where(batch, table.e2e_s <= 1.5, (table.ttft_s <= 0.25) & tpot_ok)
    assert summary["slo_attainment"] == pytest.approx(good.mean())
    classes = summary["classes"]
    assert classes["chat"]["slo_attainment"] == pytest.approx(good[~batch].mean())
    assert classes["batch"]["slo_attainment"] == pytest.approx(good[batch].mean())
    assert [verdict["metric"] for verdict in classes["batch"]["slo_verdicts"]] == ["e2e_s"]
    whole = sum(classes[name]["goodput_requests_per_s"] for name in classes)
    assert whole == pytest.approx(summary["goodput_requests_per_s"], rel=0.02)
    rate = sum(classes[name]["arrival_rate_per_s"] for name in classes)
    assert rate == pytest.approx(summary["arrival_rate_per_s"])


def test_classes_change_nothing_about_the_whole() -> None:
    table = mixed(6, 400)
    slo = Slo(ttft_s=0.25)
    plain = accumulated(table, slo=slo).summary()
    split = accumulated(table, classes=(ServiceClass("a", slo), ServiceClass("b", slo)), slo=slo).summary()
    assert {key: value for key, value in split.items() if key != "classes"} == plain


@pytest.mark.parametrize("exact_limit", [10**9, 0])
def test_chunks_in_any_order_and_merged(exact_limit: int) -> None:
    tables = [mixed(3, 200, first) for first in (0, 3, 6)]
    settings = {"slo": Slo(), "classes": (CHAT, BATCH), "exact_limit": exact_limit}
    once = accumulated(*tables, **settings).summary()
    merged = accumulated(tables[2], **settings)
    merged.merge(accumulated(tables[0], tables[1], **settings))
    assert merged.summary() == once


def test_a_class_without_requests_and_one_without_a_promise() -> None:
    table = random_table(np.random.default_rng(1), 4, 100)
    classes = accumulated(table, classes=(ServiceClass("a", Slo()), BATCH), slo=Slo()).summary()["classes"]
    assert classes["a"]["slo_attainment"] is None and classes["a"]["num_measured"] == 400
    assert classes["batch"]["ttft_s"]["p99"] is None and classes["batch"]["num_measured"] == 0
    assert classes["batch"]["slo_verdicts"][0]["met"] is None


def test_rejected_requests_of_a_class_miss() -> None:
    table = mixed(4, 100)
    status = np.where(table.class_index == 1, 1, 0).astype(np.int8)
    finish = np.where(status == 1, np.nan, table.finish_s)
    table = dataclasses.replace(table, status=status, finish_s=finish)
    classes = accumulated(table, classes=(CHAT, BATCH), slo=Slo()).summary()["classes"]
    assert classes["batch"]["slo_attainment"] == 0.0 and classes["batch"]["num_completed"] == 0
    assert classes["batch"]["slo_verdicts"][0]["met"] is False
