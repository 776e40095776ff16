"""Results on disk: exact numbers, whole files, nothing but text and Parquet."""

import csv
import dataclasses
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest

from jaxsim._status import RequestStatus
from jaxsim.config.io import parse_scenario
from jaxsim.metrics import RequestTable
from jaxsim.result import Result, load_result
from jaxsim.simulate import run
from jaxsim.tables import write_csv
from tests.metrics.tables import accumulated, random_table, table
from tests.report.results import requests_of, result_of

HEADER = (
    "seed,request,arrival_s,prompt_tokens,output_tokens,instance,decode_instance,"
    "first_scheduled_s,first_token_s,finish_s,preemptions,cached_tokens,status"
)
TIMES = ("arrival_s", "first_scheduled_s", "first_token_s", "finish_s")


@pytest.fixture
def result() -> Result:
    requests = random_table(np.random.default_rng(0), seeds=3, requests=50, first_seed=7)
    return Result(accumulated(requests).summary(), requests, {"scenario": {"name": "tést"}, "seeds": [7, 8, 9]})


def _csv(requests: RequestTable) -> str:
    file = io.StringIO()
    write_csv(requests, file)
    return file.getvalue()


def test_cells_by_hand() -> None:
    requests = table(
        seed=[5],
        arrival_s=[0.1, 1e-7, 3.0],
        request=[2, 0, 1],
        output_tokens=[4, 0, 0],
        instance=[1, -1, 0],
        decode_instance=[2, -1, -1],
        first_scheduled_s=[0.1 + 0.2, math.nan, 3.0],
        first_token_s=[0.5, math.nan, math.nan],
        finish_s=[1e22, math.nan, math.nan],
        preemptions=[0, 0, 12],
        status=[RequestStatus.COMPLETED, RequestStatus.REJECTED, RequestStatus.UNFINISHED],
    )
    assert _csv(requests).splitlines() == [
        HEADER,
        "5,2,0.1,10,4,1,2,0.30000000000000004,0.5,1e+22,0,0,completed",
        "5,0,1e-07,10,0,,,,,,0,0,rejected",
        "5,1,3.0,10,0,0,,3.0,,,12,0,unfinished",
    ]


def test_times_survive_bit_for_bit() -> None:
    rng = np.random.default_rng(1)
    times = np.abs(rng.integers(0, 2**62, (4, 500)).view(np.float64))  # any exponent
    rows = list(csv.DictReader(io.StringIO(_csv(table(arrival_s=times, finish_s=times[::-1])))))
    for name, expected in (("arrival_s", times), ("finish_s", times[::-1])):
        np.testing.assert_array_equal([float(row[name]) for row in rows], expected.ravel())


def test_long_tables_are_written_in_pieces_that_join() -> None:
    requests = random_table(np.random.default_rng(2), seeds=7, requests=20_000)
    lines = _csv(requests).splitlines()
    assert len(lines) == 140_001 and lines[0] == HEADER
    assert [line.split(",", 3)[1:3] for line in lines[1::9999]] == [
        [str(n), repr(a)]
        for n, a in zip(
            requests.request.ravel()[::9999].tolist(), requests.arrival_s.ravel()[::9999].tolist(), strict=True
        )
    ]


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_files_hold_what_the_run_found(result: Result, tmp_path: Path, format: str) -> None:
    pandas = pytest.importorskip("pandas")
    result.save(tmp_path / "new" / "folder", requests=format)
    folder = tmp_path / "new" / "folder"
    assert {path.name for path in folder.iterdir()} == {"summary.json", "manifest.json", f"requests.{format}"}
    assert json.loads((folder / "summary.json").read_text()) == result.summary
    assert json.loads((folder / "manifest.json").read_text(encoding="utf-8")) == result.manifest
    read = {"csv": pandas.read_csv, "parquet": pandas.read_parquet}[format](folder / f"requests.{format}")
    expected = result.to_pandas()
    assert ",".join(read.columns) == ",".join(expected.columns) == HEADER
    for name in TIMES:
        np.testing.assert_array_equal(read[name], expected[name])
    for name in ("seed", "request", "instance", "status"):
        assert read[name].tolist() == expected[name].tolist()
    assert read["decode_instance"].isna().all()


def test_pandas_has_missing_values_where_nothing_happened() -> None:
    pytest.importorskip("pandas")
    requests = table(
        arrival_s=[0.0, 1.0],
        instance=[3, -1],
        finish_s=[2.0, math.nan],
        status=[RequestStatus.COMPLETED, RequestStatus.LOST],
    )
    frame = Result({}, requests, {}).to_pandas()
    assert frame["instance"].tolist()[0] == 3
    assert frame["instance"].isna().tolist() == frame["finish_s"].isna().tolist() == [False, True]
    assert frame["status"].tolist() == ["completed", "lost"]
    assert requests.instance.tolist() == [[3, -1]]


def test_a_run_without_requests_saves_its_summary(tmp_path: Path) -> None:
    result = Result({"seeds": 1}, None, {})
    result.save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"summary.json", "manifest.json"}
    with pytest.raises(ValueError, match="kept only its summary"):
        result.to_pandas()


def test_a_failed_write_leaves_the_old_file(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path, requests="none")
    before = (tmp_path / "summary.json").read_text()
    with pytest.raises(ValueError):
        Result({"value": math.nan}, None, {}).save(tmp_path)
    assert (tmp_path / "summary.json").read_text() == before
    assert {path.name for path in tmp_path.iterdir()} == {"summary.json", "manifest.json"}


def test_unknown_formats_are_refused(result: Result, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="requests must be one of csv, parquet, none, not 'pickle'"):
        result.save(tmp_path, requests="pickle")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_classes_reach_summary_and_table(tmp_path: Path) -> None:
    """A workload of two classes, one of which is held to what no fleet can do."""
    length = {"kind": "fixed", "value": 20}
    classes = [
        {"name": "chat", "share": 0.75, "slo": {"ttft_s": 60.0}},
        {"name": "batch", "share": 0.25, "output_tokens": {"kind": "fixed", "value": 5}, "slo": {"e2e_s": 1e-6}},
    ]
    scheduler = {"kind": "vllm_v1", "async_scheduling": False}
    scenario = {
        "workload": {
            "kind": "synthetic",
            "num_requests": 100,
            "arrivals": {"kind": "poisson", "rate": 5.0},
            "prompt_tokens": length,
            "output_tokens": length,
            "classes": classes,
        },
        "cluster": {"instances": [{"latency": {"kind": "linear", "base_s": 0.01}, "scheduler": scheduler}]},
        "monte_carlo": {"seeds": 3},
    }
    result = run(parse_scenario(scenario))
    found = result.summary["classes"]
    assert found["chat"]["slo_attainment"] == 1.0 and found["batch"]["slo_attainment"] == 0.0
    share = result.to_pandas()["class_index"].eq(0).mean()
    assert result.summary["slo_attainment"] == pytest.approx(share)
    result.save(tmp_path)
    assert (tmp_path / "requests.csv").read_text().splitlines()[0].endswith(",status,class_index")


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_saved_results_are_loaded_again(tmp_path: Path, format: str) -> None:
    for place, requests in enumerate((requests_of(), _broken())):
        saved = result_of(requests, warmup=0)
        saved.save(tmp_path / str(place), format)
        loaded = load_result(tmp_path / str(place))
        assert loaded.summary == saved.summary and loaded.manifest == saved.manifest
        for name, column in loaded.requests.columns().items():
            expected = saved.requests.columns()[name]
            assert column.dtype == expected.dtype, name
            np.testing.assert_array_equal(column, expected)


def test_a_result_without_requests_is_loaded_too(tmp_path: Path) -> None:
    result_of().save(tmp_path, "none")
    assert load_result(tmp_path).requests is None


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("summary.json", None, "not a folder of results: it has no summary.json"),
        ("manifest.json", "{", "manifest.json: not valid JSON: Expecting property name"),
        ("requests.csv", "seed,request\n0,0\n", "not a table of requests: the column arrival_s is missing"),
        ("requests.csv", "", "not a table of requests: the column seed is missing"),
        ("requests.csv", f"{HEADER}\n0,0,x,1,1,0,,0,0,0,0,0,completed\n", "arrival_s: could not convert"),
        ("requests.csv", f"{HEADER}\n0,0,0,1,1,0,,0,0,0,0,0,finished\n", "status: invalid literal"),
        (
            "requests.csv",
            f"{HEADER}\n" + "0,0,0,1,1,0,,0,0,0,0,0,completed\n1,0,0,1,1,0,,0,0,0,0,0,completed\n" * 2,
            None,
        ),
        (
            "requests.csv",
            f"{HEADER}\n" + "".join(f"{seed},0,0,1,1,0,,0,0,0,0,0,completed\n" for seed in (0, 0, 1)),
            "not a whole table of requests: seeds have different numbers of rows",
        ),
    ],
)
def test_folders_that_are_not_results(tmp_path: Path, file: str, text: str | None, message: str | None) -> None:
    result_of().save(tmp_path)
    if text is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_text(text)
    if message is None:
        assert load_result(tmp_path).requests.num_seeds == 4
        return
    with pytest.raises(ValueError, match=message):
        load_result(tmp_path)


def test_xarray() -> None:
    result = result_of()
    data = result.to_xarray()
    assert data.sizes == {"seed": 4, "request": 300} and data.seed.values.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(data.ttft_s, result.requests.ttft_s)
    assert data.ttft_s.units == "s" and data.prompt_tokens.units == "tokens"
    assert data.status.attrs == {status.name.lower(): int(status) for status in RequestStatus}
    assert data.attrs["schema_version"] == 1 and data.attrs["num_requests"] == 1200
    one = data.sel(seed=2)
    assert float(one.where(one.ttft_s > 0.5).ttft_s.min()) > 0.5


def _broken() -> RequestTable:
    """A request that completed, one that was rejected and one that never finished, of two classes."""
    return dataclasses.replace(
        table(
            seed=[3],
            arrival_s=[0.1, 0.2, 0.3],
            output_tokens=[4, 0, 0],
            instance=[1, -1, 0],
            decode_instance=[2, -1, -1],
            first_scheduled_s=[0.1, math.nan, 3.0],
            first_token_s=[0.5, math.nan, math.nan],
            finish_s=[1.5, math.nan, math.nan],
            status=[RequestStatus.COMPLETED, RequestStatus.REJECTED, RequestStatus.UNFINISHED],
        ),
        class_index=np.array([[0, 1, 0]], np.int32),
    )
