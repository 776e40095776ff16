"""Runs that are killed, interrupted and resumed leave what an undisturbed run leaves."""

import dataclasses
import io
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jaxsim.simulate
from jaxsim import checkpoint
from jaxsim.cli.main import main
from jaxsim.config.io import load_scenario, parse_scenario
from jaxsim.config.schema import Scenario
from jaxsim.job import Job
from jaxsim.result import Result
from jaxsim.simulate import run
from jaxsim.tables import write_csv
from jaxsim.workload import Requests
from tests.simulate import chunks

TIMINGS = ("compile_seconds", "run_seconds", "total_seconds", "resumed_after_seeds")


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    return load_scenario(chunks.write(tmp_path_factory.mktemp("scenario")))


@pytest.fixture(scope="module")
def whole(scenario: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a run in one chunk."""
    out = tmp_path_factory.mktemp("whole")
    run(scenario, out=out)
    return out


@pytest.fixture(autouse=True)
def small_chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    request.getfixturevalue("whole")
    monkeypatch.setattr(jaxsim.simulate, "REQUESTS_PER_CHUNK", 40 * chunks.SEEDS_PER_CHUNK)


def same(out: Path, whole: Path, ignore: tuple[str, ...] = ()) -> None:
    """Both folders hold the same results, to the byte, and nothing else."""
    assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "requests.csv", "summary.json"]
    for name in ("requests.csv", "summary.json"):
        assert (out / name).read_bytes() == (whole / name).read_bytes()
    manifests = [json.loads((folder / "manifest.json").read_text()) for folder in (out, whole)]
    for manifest in manifests:
        for key in (*TIMINGS, *ignore):
            manifest.pop(key)
    assert manifests[0] == manifests[1]


def stopping(monkeypatch: pytest.MonkeyPatch, after: int, error: BaseException) -> None:
    """Let `after` chunks finish, then raise."""
    real, calls = Job.simulate, iter(range(10**9))

    def simulate(self: Job, places: np.ndarray, progress: Callable[[float], None]) -> Any:
        if next(calls) == after:
            raise error
        return real(self, places, progress)

    monkeypatch.setattr(Job, "simulate", simulate)


def test_chunks_do_not_change_a_byte(scenario: Scenario, whole: Path, tmp_path: Path) -> None:
    result = run(scenario, out=tmp_path)
    same(tmp_path, whole, ignore=("rounds",))  # a tile's rounds are those of its slowest lane
    assert result.requests is None
    assert result.summary == json.loads((tmp_path / "summary.json").read_text())


def test_what_is_written_is_what_is_returned_without_a_folder(scenario: Scenario, whole: Path) -> None:
    result = run(scenario)
    text = io.StringIO()
    write_csv(result.requests, text)
    assert text.getvalue() == (whole / "requests.csv").read_text()
    assert result.summary == json.loads((whole / "summary.json").read_text())


def test_chunks_of_a_sketched_run_do_not_change_a_byte(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jaxsim.gathered.EXACT_LIMIT", 2000)
    summary = run(scenario).summary
    assert summary["ttft_s"]["relative_error"] > 0
    monkeypatch.setattr(jaxsim.simulate, "REQUESTS_PER_CHUNK", 10**6)
    assert run(scenario).summary == summary


@pytest.mark.parametrize("limit", [2000, 10**6])
def test_an_interrupted_run_is_kept_and_resumed(
    scenario: Scenario, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr("jaxsim.gathered.EXACT_LIMIT", limit)
    expected = run(scenario).summary
    with monkeypatch.context() as patch:
        stopping(patch, 3, KeyboardInterrupt())
        partial = run(scenario, out=tmp_path)
    assert partial.manifest["interrupted"] and partial.summary["seeds"] == 3 * chunks.SEEDS_PER_CHUNK
    rows = (whole / "requests.csv").read_text().splitlines(keepends=True)
    assert (tmp_path / "requests.csv").read_text() == "".join(rows[: 1 + 3 * chunks.SEEDS_PER_CHUNK * 40])

    with pytest.raises(ValueError, match="unfinished run: continue it with --resume"):
        run(scenario, out=tmp_path)
    with pytest.raises(ValueError, match="unfinished run"):
        Result({}, None, {}).save(tmp_path)
    result = run(scenario, out=tmp_path, resume=True)
    assert result.summary == expected
    assert result.manifest["resumed_after_seeds"] == 3 * chunks.SEEDS_PER_CHUNK
    assert not result.manifest["interrupted"]
    assert (tmp_path / "requests.csv").read_bytes() == (whole / "requests.csv").read_bytes()
    assert not (tmp_path / "unfinished").exists()

    stopping(monkeypatch, 0, AssertionError("a finished run is not run again"))
    again = run(scenario, out=tmp_path, resume=True)
    assert (again.summary, again.manifest) == (result.summary, result.manifest)


def test_resuming_where_there_is_nothing_begins(scenario: Scenario, whole: Path, tmp_path: Path) -> None:
    result = run(scenario, out=tmp_path / "new", resume=True)
    same(tmp_path / "new", whole, ignore=("rounds",))
    assert result.manifest["resumed_after_seeds"] is None


def test_nothing_is_left_of_a_run_that_fails_at_once(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping(monkeypatch, 0, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run(scenario, out=tmp_path / "out")
    assert not list(tmp_path.iterdir())


CHANGES: dict[str, Any] = {
    r"cluster\.router\.kind is \"random\" there and \"round_robin\" here": {"cluster.router": {"kind": "round_robin"}},
    r"monte_carlo\.seeds is 32 there and 33 here \(and 1 more\)": {"monte_carlo.seeds": 33},
    r"cluster\.instances\.0\.latency\.base_s is 0\.005 there and 0\.006 here": {
        "cluster.instances.0.latency.base_s": 0.006
    },
}


@pytest.mark.parametrize("message", [*CHANGES, "versions", "requests", "finished"])
def test_another_run_is_not_resumed(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    options: dict[str, Any] = {"out": tmp_path, "resume": True}
    with monkeypatch.context() as patch:
        if message != "finished":
            stopping(patch, 1, KeyboardInterrupt())
        run(scenario, out=tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    if message == "versions":
        monkeypatch.setattr(jaxsim.simulate, "__version__", "99")
        message = r"versions\.jaxsim is \".*\" there and \"99\" here; choose another folder, or run the same again"
    elif message == "requests":
        options["requests_format"] = "none"
        message = 'requests is "csv" there and "none" here'
    else:
        key, value = next(iter(CHANGES.get(message, {"name": "other"}).items()))
        scenario = changed(scenario, key, value)
        message = r"results of another run that cannot be resumed: name is" if message == "finished" else message
    with pytest.raises(ValueError, match=message):
        run(scenario, **options)
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}


def changed(scenario: Scenario, key: str, value: Any) -> Scenario:
    from jaxsim.config.io import dump_scenario

    data = dump_scenario(scenario)
    *path, last = key.split(".")
    section: Any = data
    for name in path:
        section = section[int(name)] if isinstance(section, list) else section[name]
    section[last] = value
    return parse_scenario(data)


def test_given_requests_are_part_of_what_must_be_the_same(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = scenario.workload.draw(np.arange(12))
    with monkeypatch.context() as patch:
        stopping(patch, 1, KeyboardInterrupt())
        run(scenario, requests=requests, out=tmp_path)
    other: Requests = dataclasses.replace(requests, arrival_s=requests.arrival_s * 2)
    with pytest.raises(ValueError, match="input_hashes.requests is"):
        run(scenario, requests=other, out=tmp_path, resume=True)
    run(scenario, requests=requests, out=tmp_path, resume=True)
    assert (tmp_path / "requests.csv").read_text().count("\n") == 1 + 12 * 40


def test_earlier_results_are_replaced_as_a_whole_and_that_is_said(scenario: Scenario, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    run(scenario, out=tmp_path, requests_format="parquet")
    result = run(changed(scenario, "name", "second"), out=tmp_path)
    assert result.manifest["notices"] == [
        f"{tmp_path} held the results of 'chunks' of an earlier run; they are replaced"
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "requests.csv", "summary.json"]
    run(scenario, out=tmp_path, requests_format="none")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "summary.json"]


def test_parquet_from_parts_holds_what_csv_holds(scenario: Scenario, whole: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    run(scenario, out=tmp_path, requests_format="parquet")
    found, expected = pandas.read_parquet(tmp_path / "requests.parquet"), pandas.read_csv(whole / "requests.csv")
    assert found["finish_s"].tolist() == expected["finish_s"].tolist()
    assert found["status"].tolist() == expected["status"].tolist()
    assert found["seed"].tolist() == expected["seed"].tolist()


def test_half_a_file_is_done_again(
    scenario: Scenario, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut a file may hold less than was written."""
    with monkeypatch.context() as patch:
        stopping(patch, 5, KeyboardInterrupt())
        run(scenario, out=tmp_path)
    for name in ("000001.npz", "000003.csv"):
        file = tmp_path / "unfinished" / name
        file.write_bytes(file.read_bytes()[:-100])
    result = run(scenario, out=tmp_path, resume=True)
    assert result.manifest["resumed_after_seeds"] == 3 * chunks.SEEDS_PER_CHUNK
    same(tmp_path, whole, ignore=("rounds",))


def test_two_runs_do_not_write_into_one_folder(scenario: Scenario, tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    what = dict.fromkeys(checkpoint.COMPARED, "none")
    first = checkpoint.Checkpoint(tmp_path, what, 1, resume=False)
    second = checkpoint.Checkpoint(tmp_path, what, 1, resume=False)
    part = checkpoint.Part(0, {"x": np.zeros(2)}, b"")
    first.put(part)
    with pytest.raises(ValueError, match="another process is writing a run into this folder"):
        second.put(part)
    with pytest.raises(ValueError, match="another process"):
        checkpoint.Checkpoint(tmp_path, what, 1, resume=True)
    first.close()
    checkpoint.Checkpoint(tmp_path, what, 1, resume=True).close()


def finished(out: Path) -> int:
    return len(list((out / "unfinished").glob("*.npz")))


def start(*arguments: str, pause_s: float = 0.0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        chunks.command(*arguments),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), chunks.PAUSE: str(pause_s)},
    )


@pytest.mark.parametrize("attempt", range(2))
def test_killed_at_any_moment_and_resumed(whole: Path, tmp_path: Path, attempt: int) -> None:
    """SIGKILL at a random moment after a chunk has finished, twice; each loses one chunk at most."""
    rng = random.Random(attempt)
    scenario, out = chunks.write(tmp_path), tmp_path / "out"
    line = ["run", scenario, "--out", str(out), "--devices", "1", "--resume"]
    kills, before = 0, 0
    while kills < 2:
        process = start(*line)
        while process.poll() is None and finished(out) <= before:
            time.sleep(0.002)
        time.sleep(rng.random() * 0.1)
        process.kill()
        _, error = process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, error
        kills += 1
        if not (out / "manifest.json").exists():
            assert finished(out) > before
        before = finished(out)
    assert main(line) == 0
    same(out, whole, ignore=("rounds", "device"))


def test_ctrl_c_in_a_process_of_its_own_keeps_chunks_and_says_how_to_go_on(whole: Path, tmp_path: Path) -> None:
    scenario, out = chunks.write(tmp_path), tmp_path / "out"
    process = start("run", scenario, "--out", str(out), "--devices", "1", pause_s=1.0)
    while process.poll() is None and not finished(out):
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"32 seeds had finished, they are in {out}; --resume goes on" in error
    assert json.loads((out / "manifest.json").read_text())["interrupted"]
    assert main(["run", scenario, "--out", str(out), "--devices", "1", "--resume"]) == 0
    same(out, whole, ignore=("rounds", "device"))
