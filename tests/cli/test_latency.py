"""jaxsim latency: the table adds up, JSON says the same, pictures are drawn, mistakes are named."""

import json
from pathlib import Path

import pytest

from jaxsim.cli.main import main

WORDS = "latency --model llama-3.1-8b --hardware h100-sxm --prefill 2048 --decode 64 --context 4096".split()


def test_the_table_adds_up_to_the_iteration(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(row["time_s"] for row in found["table"]) == pytest.approx(found["iteration_s"])
    assert sum(row["time_share"] for row in found["table"]) == pytest.approx(1)
    rows = {row["operator"]: row for row in found["table"]}
    assert rows["gate+up"]["gflop"] == pytest.approx(32 * 2 * 2112 * 4096 * 2 * 14336 / 1e9)
    assert rows["gate+up"]["bound"] == "compute" and rows["decode attention"]["bound"] == "memory"
    assert found["kv_bytes_per_token"] == 131072
    assert found["largest_batch"] == found["num_blocks"] // 256
    assert found["tpot_s"] < found["ttft_s"] < found["iteration_s"]


def test_it_is_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--set", "host_s=1e-3", "--set", "efficiency.mixed_layer_s=0"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith("One iteration with a prompt of 2,048 tokens and 64 decodes at context 4,096 takes")
    assert "28,459 blocks of 16 tokens fit, 111 requests of 4,096 tokens" in told
    assert " host " in told and "mixed batch" not in told


def test_a_picture_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--plot", str(tmp_path / "roofline.png"), "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "roofline.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["latency.csv", "latency.json", "latency.png"]
    assert f"wrote {tmp_path / 'out'}/" in capsys.readouterr().out


def test_what_is_assumed_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("latency --model llama-3.1-8b --hardware l40s --tp 2 --decode 4 --context 100 --json".split()) == 0
    generic, link = json.loads(capsys.readouterr().out)["warnings"]
    assert generic.startswith("no kernels were measured on l40s") and link.startswith("links have their nominal")
    assert main("latency --model llama-3.1-70b --hardware h200 --decode 4 --context 100 --json".split()) == 0
    relative, full = json.loads(capsys.readouterr().out)["warnings"]
    assert relative == "efficiencies are those of h100-sxm, a relative of h200-sxm"
    assert full == "the model does not fit: no memory is left for the KV cache"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--model lama --hardware h100 --decode 1 --context 1", "model: model 'lama' is not known"),
        ("--model llama-3.1-8b --hardware h100", "an iteration needs prompt tokens or decodes"),
        ("--model llama-3.1-8b --hardware h100 --decode 1", "decodes need a context"),
        ("--model llama-3.1-8b --hardware h100 --decode 1 --context 1 --tp 3", "tensor_parallel: must divide the 32"),
        (
            "--model llama-3.1-8b --hardware h100 --decode 1 --context 1 --set hots_s=1",
            "hots_s: unknown key; did you mean",
        ),
        ("--model llama-3.1-8b --hardware h100 --decode 1 --context 1 --set x", "--set x: must be KEY=VALUE"),
        ("--model llama-3.1-8b --hardware h100 --decode 1 --context 1 --dtype fp3", "dtype: "),
        ("--hardware h100 --decode 1 --context 1", "the following arguments are required: --model"),
    ],
)
def test_mistakes(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["latency", *words.split()]) == 2
    told = capsys.readouterr()
    assert told.out == "" and message in told.err and told.err.count("\n") == 1
