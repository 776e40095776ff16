"""Classes of requests and lengths drawn together: shares, correlation, and common random numbers kept."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from jaxsim.config.errors import ScenarioError
from jaxsim.config.io import dump_scenario, parse_scenario
from jaxsim.specs import Slo
from jaxsim.workload import RequestClass, Synthetic
from jaxsim.workload.arrivals import Poisson
from jaxsim.workload.joint import Correlated, Pairs
from jaxsim.workload.lengths import Fixed, Lognormal
from tests.workload.examples import LENGTHS, synthetic

CHAT = RequestClass(name="chat", share=0.7, prompt_tokens=Fixed(value=11), slo=Slo(ttft_s=0.5))
BATCH = RequestClass(name="batch", share=0.3, output_tokens=Fixed(value=22), priority=5)
PLAIN = synthetic(1500)
MIXED = dataclasses.replace(PLAIN, classes=(CHAT, BATCH))


def test_each_class_has_its_own_lengths_and_the_others_are_the_workloads():
    plain, mixed = PLAIN.draw([1, 2]), MIXED.draw([1, 2])
    batch = mixed.class_index == 1
    assert mixed.class_names == ("chat", "batch") and mixed.class_index.dtype == np.int32
    np.testing.assert_array_equal(mixed.priority, np.where(batch, 5, 0))
    np.testing.assert_array_equal(mixed.prompt_tokens, np.where(batch, plain.prompt_tokens, 11))
    np.testing.assert_array_equal(mixed.output_tokens, np.where(batch, 22, plain.output_tokens))
    np.testing.assert_array_equal(mixed.arrival_s, plain.arrival_s)
    np.testing.assert_array_equal(mixed.routing_uniform, plain.routing_uniform)


def test_shares():
    """20,000 requests, 5 standard errors: a wrong alarm in 2 million."""
    index = dataclasses.replace(MIXED, num_requests=20_000).draw([0]).class_index
    assert abs(index.mean() - 0.3) < 5 * np.sqrt(0.3 * 0.7 / index.size)


def test_a_longer_run_starts_like_a_shorter_one():
    long, short = MIXED.draw([3]), dataclasses.replace(MIXED, num_requests=700).draw([3])
    for name in ("class_index", "prompt_tokens", "output_tokens", "priority"):
        np.testing.assert_array_equal(getattr(short, name), getattr(long, name)[:, :700])


def test_classes_are_independent_of_everything_else():
    drawn = dataclasses.replace(MIXED, num_requests=20_000, classes=(CHAT, dataclasses.replace(BATCH))).draw([4])
    plain = dataclasses.replace(PLAIN, num_requests=20_000).draw([4])
    gap = np.diff(drawn.arrival_s[0], prepend=0.0)
    columns = [drawn.class_index[0], gap, plain.prompt_tokens[0], plain.output_tokens[0], drawn.routing_uniform[0]]
    assert np.abs(stats.spearmanr(np.stack(columns).T).statistic - np.eye(5)).max() < 5 / np.sqrt(20_000)


def test_another_share_moves_only_requests_whose_class_changed():
    other = (dataclasses.replace(CHAT, share=0.6), dataclasses.replace(BATCH, share=0.4))
    before, after = MIXED.draw([5]), dataclasses.replace(MIXED, classes=other).draw([5])
    assert np.all(after.class_index >= before.class_index)
    same = after.class_index == before.class_index
    assert 0.85 < same.mean() < 0.95
    np.testing.assert_array_equal(after.prompt_tokens[same], before.prompt_tokens[same])


@pytest.mark.parametrize("correlation", [-0.6, 0.0, 0.8])
def test_correlated_lengths(correlation):
    """The marginals stay exactly those of the prompt, and the rank correlation is 6/pi asin(r/2)."""
    output = Lognormal(median=148.4, sigma=0.8, min=2, max=2048)
    joint = Correlated(prompt_tokens=LENGTHS[3], output_tokens=output, correlation=correlation)
    drawn = Synthetic(num_requests=20_000, arrivals=Poisson(rate=1.0), lengths=joint).draw([6])
    plain = dataclasses.replace(PLAIN, num_requests=20_000).draw([6])
    np.testing.assert_array_equal(drawn.prompt_tokens, plain.prompt_tokens)
    if not correlation:
        assert np.mean(drawn.output_tokens == plain.output_tokens) > 0.999  # ndtr(ndtri(u)) is u up to its last bits
    rank = stats.spearmanr(drawn.prompt_tokens[0], drawn.output_tokens[0]).statistic
    assert rank == pytest.approx(6 / np.pi * np.arcsin(correlation / 2), abs=0.03)
    assert stats.ks_2samp(drawn.output_tokens[0], plain.output_tokens[0]).statistic < 0.025


def test_pairs_keep_prompt_and_output_together(tmp_path):
    (tmp_path / "t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,30,3\n1,10,1\n2,10,7\n3,99,9\n")
    workload = Synthetic(num_requests=8000, arrivals=Poisson(rate=1.0), lengths=Pairs(path=tmp_path / "t.csv", max=50))
    drawn = workload.draw([7])
    pairs, counts = np.unique(np.stack([drawn.prompt_tokens[0], drawn.output_tokens[0]]), axis=1, return_counts=True)
    assert pairs.T.tolist() == [[10, 1], [10, 7], [30, 3], [50, 9]]
    assert np.abs(counts / 8000 - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 8000)


def test_a_class_may_have_pairs(tmp_path):
    (tmp_path / "t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,30,3\n")
    classes = (CHAT, dataclasses.replace(BATCH, output_tokens=None, lengths=Pairs(path=tmp_path / "t.csv")))
    drawn = dataclasses.replace(PLAIN, classes=classes).draw([1])
    assert np.all(drawn.output_tokens[drawn.class_index == 1] == 3)


WORKLOAD = {
    "kind": "synthetic",
    "num_requests": 10,
    "arrivals": {"kind": "poisson", "rate": 1.0},
    "prompt_tokens": {"kind": "fixed", "value": 5},
    "output_tokens": {"kind": "fixed", "value": 5},
}
CLUSTER = {"instances": [{"latency": {"kind": "linear", "base_s": 0.01}, "scheduler": {"kind": "orca"}}]}


def scenario(**changes):
    workload = {key: value for key, value in {**WORKLOAD, **changes}.items() if value is not ...}
    scheduler = {"kind": "vllm_v1", "async_scheduling": False}
    return parse_scenario(
        {"workload": workload, "cluster": {"instances": [{**CLUSTER["instances"][0], "scheduler": scheduler}]}}
    )


def test_classes_in_a_scenario_file():
    classes = [
        {"name": "chat", "share": 0.7, "slo": {"ttft_s": {"p99": 0.5}}},
        {"name": "batch", "share": 0.3, "priority": 2, "output_tokens": {"kind": "fixed", "value": 9}},
    ]
    read = scenario(classes=classes)
    assert read.workload.classes == (
        RequestClass(name="chat", share=0.7, slo=Slo(ttft_s={"p99": 0.5})),
        RequestClass(name="batch", share=0.3, priority=2, output_tokens=Fixed(value=9)),
    )
    assert parse_scenario(dump_scenario(read)) == read


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": []}, "workload.classes: must be null or hold at least one class"),
        ({"classes": [{"name": "a", "share": 0.5}]}, "workload.classes: must have shares that add up to 1, not 0.5"),
        ({"classes": [{"name": "a", "share": 0}]}, "workload.classes.0.share: must be a share in (0, 1], not 0"),
        ({"classes": [{"name": "", "share": 1}]}, "workload.classes.0.name: must not be empty"),
        ({"classes": [{"share": 1}]}, "workload.classes.0.name: is required"),
        (
            {"classes": [{"name": "a", "share": 1, "prio": 1}]},
            "workload.classes.0.prio: unknown key; did you mean prior",
        ),
        (
            {"classes": [{"name": "a", "share": 0.5}] * 2},
            "workload.classes.1.name: must differ from the other classes' names, not 'a' again",
        ),
        (
            {"classes": [{"name": "a", "share": 1, "slo": {"ttft_s": -1}}]},
            "workload.classes.0.slo.ttft_s.p99: must be a finite number of seconds greater than 0, not -1",
        ),
        ({"prompt_tokens": ...}, "workload.prompt_tokens: must be given, or lengths in place of"),
        (
            {"prompt_tokens": ..., "classes": [{"name": "a", "share": 1}]},
            "workload.classes.0.prompt_tokens: must be given, or lengths in place of",
        ),
        (
            {"lengths": {"kind": "pairs", "path": "x.csv"}},
            "workload.lengths: must not be given beside prompt_tokens and output_tokens",
        ),
        (
            {"prompt_tokens": {"kind": "fixd", "value": 1}},
            "workload.prompt_tokens.kind: unknown kind 'fixd'; did you mean fixed?",
        ),
        (
            {
                "lengths": {
                    "kind": "correlated",
                    "prompt_tokens": WORKLOAD["prompt_tokens"],
                    "output_tokens": WORKLOAD["output_tokens"],
                    "correlation": 1.5,
                },
                "prompt_tokens": None,
                "output_tokens": None,
            },
            "workload.lengths.correlation: must be a number between -1 and 1, not 1.5",
        ),
    ],
)
def test_bad_classes(changes, message):
    with pytest.raises(ScenarioError) as raised:
        scenario(**changes)
    assert str(raised.value).startswith(message)
