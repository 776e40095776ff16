"""Calibration: what was put in comes out, files are read or refused by row, and what is written is what was fitted."""

import csv
import json

import numpy as np
import pytest
from scipy.optimize import nnls

from jaxsim.analysis.calibrate import calibrate, roofline_of
from jaxsim.analysis.calibrate_host import calibrate_host
from jaxsim.analysis.sample_files import read_samples
from jaxsim.analysis.solvers import held, non_negative
from jaxsim.cli.main import main
from jaxsim.config.io import load_scenario, parse_scenario
from jaxsim.latency import Roofline
from jaxsim.operators import Efficiency, KernelEfficiency
from jaxsim.simulate import run
from jaxsim.workload import Trace
from tests.latency.test_table import DATA

LINEAR = {"base_s": 6e-3, "per_token_s": 2e-5, "per_context_token_s": 4e-8, "per_prefill_pair_s": 5e-10}
PHASES = [("prefill", 1, n) for n in (64, 512, 2048)] + [("prefill", 4, 1024), ("prefill", 1, 8192)]
PHASES += [("decode", 1, 1024), ("decode", 8, 4096), ("decode", 32, 1024), ("decode", 64, 4096), ("decode", 256, 512)]
PHASES += [("mixed512", 32, 2048), ("mixed2048", 64, 2048)]
OTHERS = [
    ("prefill", 2, 512),
    ("prefill", 1, 4096),
    ("decode", 16, 2048),
    ("decode", 128, 1024),
    ("mixed1024", 16, 2048),
]


def write(path, header, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header.split(","), *rows])
    return str(path)


def steps(path, phases, clock, columns="", values=()):
    """A file of step samples that a clock timed."""
    header = f"{columns}phase,batch,tokens_per_seq,time_s"
    draft = read_samples(write(path, header, [(*values, *phase, 1.0) for phase in phases]))
    times = draft.predicted_s(clock)
    return read_samples(write(path, header, [(*values, *phase, t) for phase, t in zip(phases, times, strict=True)]))


def linear_seconds(terms):
    return (
        LINEAR["base_s"]
        + LINEAR["per_token_s"] * terms["new_tokens"]
        + LINEAR["per_context_token_s"] * terms["context_tokens"]
        + LINEAR["per_prefill_pair_s"] * terms["prefill_pairs"]
    )


def test_linear_coefficients_come_back(tmp_path):
    samples = steps(tmp_path / "steps.csv", PHASES, linear_seconds)
    answer = calibrate(samples)
    assert answer.fit.name == "linear"
    assert answer.fitted.parameters == pytest.approx(LINEAR, rel=1e-5)
    assert answer.error < 1e-5
    assert [row["region"] for row in answer.rows] == ["all"] + [
        f"{kind}, {size}" for kind in ("decode", "mixed", "prefill") for size in ("large", "small")
    ]


def test_layouts_agree(tmp_path):
    """The same iterations by phase, by the columns of a table and by their sums."""
    rows = [("prefill", 1, 64), ("decode", 8, 4095)]
    by_phase = steps(tmp_path / "phases.csv", rows, linear_seconds)
    points = "prefill_tokens,prefill_context,decode_seqs,decode_context,time_ms"
    by_point = read_samples(write(tmp_path / "points.csv", points, [(64, 0, 0, 0, 7), (0, 0, 8, 4096, 8)]))
    sums = "num_prefill_chunks,prefill_tokens,sum_chunk_x_kvafter,sum_chunk_sq,num_decodes,sum_decode_kv,step_seconds"
    by_sum = read_samples(
        write(tmp_path / "sums.csv", sums, [(1, 64, 4096, 4096, 0, 0, 7e-3), (0, 0, 0, 0, 8, 32768, 8e-3)])
    )
    for name, term in by_phase.terms.items():
        np.testing.assert_array_equal(by_point.terms[name], term, err_msg=name)
        np.testing.assert_array_equal(by_sum.terms[name], term, err_msg=name)
    np.testing.assert_allclose(by_point.time_s, [7e-3, 8e-3])


def test_a_dozen_samples_are_enough_for_a_roofline(tmp_path):
    """Efficiencies that differ from the shipped ones by a quarter: 12 samples bring the error from 14 % to 1 %."""
    clock = Roofline(
        model="llama-3.1-8b",
        hardware="h100-sxm",
        host_s=1e-3,
        efficiency=Efficiency(
            gemm=KernelEfficiency(compute=0.6, memory=0.65, overhead_s=4e-6),
            decode_attention=KernelEfficiency(memory=0.7, overhead_s=4e-6),
        ),
    )
    columns, values = "model,hardware,tp,dtype,", ("llama-3.1-8b", "h100-sxm", 1, "bf16")
    few = steps(tmp_path / "few.csv", PHASES, clock.seconds, columns, values)
    others = steps(tmp_path / "others.csv", OTHERS, clock.seconds)
    before, answer = roofline_of(few), calibrate(few)
    assert answer.fit.name == "roofline"
    assert np.abs(others.errors(before.seconds)).mean() > 0.1
    assert np.abs(others.errors(answer.fitted.seconds)).mean() < 0.015
    assert answer.fitted.parameters["efficiency.gemm.compute"] == pytest.approx(0.6, rel=0.05)


def test_what_is_saved_is_what_was_fitted(tmp_path):
    columns, values = "model,hardware,tp,dtype,", ("llama-3.1-8b", "h100-sxm", 1, "bf16")
    clock = Roofline(model="llama-3.1-8b", hardware="h100-sxm", host_s=2e-3)
    samples = steps(tmp_path / "steps.csv", PHASES, lambda terms: 1.1 * clock.seconds(terms), columns, values)
    scenario = {
        "workload": {
            "kind": "synthetic",
            "num_requests": 1,
            "arrivals": {"kind": "constant", "rate": 1.0},
            "prompt_tokens": {"kind": "fixed", "value": 1},
            "output_tokens": {"kind": "fixed", "value": 1},
        },
        "cluster": {"instances": [{"latency": "fitted/latency.yaml"}]},
    }
    (tmp_path / "scenario.yaml").write_text(json.dumps(scenario))
    for model in ("linear", "roofline"):
        answer = calibrate(samples, model)
        answer.save(tmp_path / "fitted")
        assert load_scenario(tmp_path / "scenario.yaml").cluster.instances[0].latency == answer.fitted.latency
        head = (tmp_path / "fitted" / "latency.yaml").read_text().splitlines()[0]
        assert head.startswith("# Fitted by jaxsim calibrate") and samples.sha256 in head
    answer = calibrate(samples, "residual")
    assert answer.error < calibrate(samples, "roofline").error
    with pytest.raises(ValueError, match="save it"):
        answer.to_yaml()
    answer.save(tmp_path / "fitted")
    table = load_scenario(tmp_path / "scenario.yaml").cluster.instances[0].latency
    assert table.kind == "table" and table.path == str(tmp_path / "fitted" / "step_times.csv")


def scenario_of(latency, requests=60, rate=30.0):
    return parse_scenario(
        {
            "workload": {
                "kind": "synthetic",
                "num_requests": requests,
                "arrivals": {"kind": "poisson", "rate": rate},
                "prompt_tokens": {"kind": "uniform", "min": 1, "max": 60},
                "output_tokens": {"kind": "uniform", "min": 8, "max": 60},
            },
            "cluster": {
                "instances": [{"latency": latency, "scheduler": {"kind": "vllm_v1", "async_scheduling": False}}]
            },
        }
    )


def server_log(path, latency):
    """Requests of a simulated server, as a server would log them."""
    table = run(scenario_of(latency)).requests
    names = ("arrival_s", "prompt_tokens", "output_tokens", "first_scheduled_s", "first_token_s", "finish_s")
    return write(path, ",".join(names), zip(*(getattr(table, name)[0].tolist() for name in names), strict=True))


def test_a_server_log_shows_its_linear_clock(tmp_path):
    """A log says how much was computed between two stamps; the coefficients follow to a few per cent."""
    truth = {"kind": "linear", "base_s": 5e-3, "per_token_s": 1e-4, "per_context_token_s": 2e-6}
    answer = calibrate(read_samples(server_log(tmp_path / "requests.csv", truth)))
    assert answer.error < 0.02
    found = answer.fitted.parameters
    assert found["base_s"] == pytest.approx(truth["base_s"], rel=0.05)
    assert found["per_token_s"] == pytest.approx(truth["per_token_s"], rel=0.15)
    assert found["per_context_token_s"] == pytest.approx(truth["per_context_token_s"], rel=0.15)
    assert "check the clock with jaxsim validate" in answer.warnings[0]


def test_host_time_comes_back(tmp_path):
    truth = {"kind": "table", "path": str(DATA / "phases.csv"), "extrapolate": "clamp", "host_s": 1.3e-3}
    log = server_log(tmp_path / "requests.csv", truth)
    answer = calibrate_host(scenario_of(truth | {"host_s": 0.5}), Trace(path=log))
    assert answer.host_s == pytest.approx(1.3e-3, rel=0.01)
    assert abs(answer.after.error("ttft_s", "mean")) < 0.01 < abs(answer.before.error("ttft_s", "mean"))
    answer.save(tmp_path / "fitted")
    assert "host_s: 0.0013" in (tmp_path / "fitted" / "latency.yaml").read_text()
    with pytest.raises(ValueError, match="off without any time of the host"):
        calibrate_host(scenario_of(truth | {"time_scale": 3.0}), Trace(path=log))
    with pytest.raises(ValueError, match="whose latency has a host_s"):
        calibrate_host(scenario_of({"kind": "linear", "base_s": 1e-3}), Trace(path=log))


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        (
            "phase,batch,tokens_per_seq,time_s",
            "warmup,1,2,3",
            "row 1 (line 2): phase is 'warmup'; it must be prefill, dec",
        ),
        (
            "phase,batch,tokens_per_seq,time_s",
            "decode,1,2,0",
            "row 1 (line 2): time_s is '0'; it must be a number greater",
        ),
        ("phase,batch,tokens_per_seq,time_s", "decode,0,2,1", "row 1 (line 2): the iteration is empty"),
        ("batch,time_s", "1,2", "the columns batch,time_s are of no known layout; valid: prefill_tokens,prefill_cont"),
        (
            "arrival_s,prompt_tokens,output_tokens,first_scheduled_s,first_token_s,finish_s",
            "0,5,5,1,1,2",
            "row 1 (line 2): must have first_scheduled_s < first_token_s <= finish_s",
        ),
        (
            "arrival_s,prompt_tokens,output_tokens,first_scheduled_s,first_token_s,finish_s",
            "0,5,1,1,2,2",
            "no request has more than one output token",
        ),
    ],
)
def test_files_that_are_no_samples(tmp_path, header, row, message):
    path = tmp_path / "samples.csv"
    path.write_text(f"{header}\n{row}\n")
    with pytest.raises(ValueError) as error:
        read_samples(str(path))
    assert message in str(error.value)


def test_files_of_two_models(tmp_path):
    path = write(
        tmp_path / "two.csv", "model,phase,batch,tokens_per_seq,time_s", [("a", *PHASES[0], 1), ("b", *PHASES[1], 1)]
    )
    with pytest.raises(ValueError, match="model is 'a' in some rows and 'b' in others; it must be one"):
        read_samples(path)


def test_questions_that_cannot_be_answered(tmp_path):
    samples = steps(tmp_path / "steps.csv", PHASES, linear_seconds)
    with pytest.raises(ValueError, match="one sample is not enough"):
        calibrate(samples[np.arange(len(samples)) < 1])
    with pytest.raises(ValueError, match=r"name them \(--model, --hardware\)"):
        calibrate(samples, "roofline")
    decodes = samples[np.array([phase == "decode" for phase, _, _ in PHASES])]
    assert calibrate(decodes).warnings == (
        "5 samples are few: 12 spread over prompts, decodes and mixed iterations are enough",
        "no sample has prompts: what they take is a guess",
    )


def test_non_negative_least_squares():
    rng = np.random.default_rng(0)
    for _ in range(20):
        columns, goal = rng.normal(size=(12, 4)) ** 2, rng.normal(size=12)
        np.testing.assert_allclose(non_negative(columns, goal), nnls(columns, goal)[0], atol=1e-9)


def test_a_prior_holds_what_data_leave_open():
    goal = np.array([2.0, 5.0])

    def errors(x):
        return x[:1] - goal[:1]

    low, high = np.full(2, -10.0), np.full(2, 10.0)
    found = held(errors, np.zeros(2), np.ones(2), low, high, noise=1e-3)
    np.testing.assert_allclose(found, [2.0, 0.0], atol=1e-5)
    np.testing.assert_allclose(held(errors, np.zeros(2), np.ones(2), low, np.array([1.5, 10]), 1e-3)[0], 1.5)


def test_command(tmp_path, capsys):
    samples = steps(tmp_path / "steps.csv", PHASES, linear_seconds)
    assert main(["calibrate", samples.source, "--out", str(tmp_path / "fitted"), "--no-progress"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("A linear clock is 0.0% off") and "latency.yaml" in out
    assert main(["calibrate", samples.source, "--fit", "residual", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "residual"
    named = ["--model", "llama-3.1-8b", "--hardware", "h100-sxm", "--tp", "2"]
    assert main(["calibrate", samples.source, *named, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "roofline"
    assert main(["calibrate", str(tmp_path / "nowhere.csv")]) == 2
    assert "nowhere.csv: no such file or directory; it must be a readable CSV file" in capsys.readouterr().err
