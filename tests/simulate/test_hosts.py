"""Two processes on loopback find, and write, what one finds."""

import json
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from jaxsim.cli.main import main
from jaxsim.config.io import load_scenario
from jaxsim.gathered import decoded, encoded
from jaxsim.simulate import run
from tests.simulate import chunks

AMPLE = ("--set", "cluster.instances.0.kv_cache.num_blocks=null")
"""One program, rather than several, is compiled by each process."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(folder: Path, *arguments: str) -> tuple[list[subprocess.Popen[str]], int]:
    """Two processes, each with a folder of its own: they share nothing but the coordinator."""
    port = free_port()
    processes = []
    for place in range(2):
        (folder / str(place)).mkdir()
        line = ["run", chunks.write(folder), "--out", "out", "--devices", "1", *AMPLE, *arguments]
        line += ["--coordinator", f"127.0.0.1:{port}", "--num-processes", "2", "--process-id", str(place)]
        processes.append(
            subprocess.Popen(
                chunks.command(*line),
                cwd=folder / str(place),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "COLUMNS": "100"},
            )
        )
    return processes, port


def listening(process: subprocess.Popen[str]) -> set[str]:
    """Addresses, as Linux writes them, at which a process listens."""
    try:
        mine = {os.readlink(entry) for entry in Path(f"/proc/{process.pid}/fd").iterdir()}
    except OSError:  # it has ended, or this is no Linux
        return set()
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    rows = [row.split() for table in tables for row in table.read_text().splitlines()[1:]]
    return {row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in mine}


def test_two_processes_write_what_one_writes(tmp_path: Path) -> None:
    processes, port = start(tmp_path)
    found: set[str] = set()
    while any(process.poll() is None for process in processes):
        found.update(*map(listening, processes))
        time.sleep(0.05)
    (printed, error), (other_printed, other_error) = (process.communicate() for process in processes)
    assert [process.returncode for process in processes] == [0, 0], error + other_error
    alone = run(load_scenario(chunks.write(tmp_path), AMPLE[1:]), out=tmp_path / "alone", devices=1)
    for name in ("requests.csv", "summary.json"):
        assert (tmp_path / "0" / "out" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    manifest = json.loads((tmp_path / "0" / "out" / "manifest.json").read_text())
    assert manifest["device"]["processes"] == 2
    assert manifest["iterations"] == alone.manifest["iterations"]
    assert "TTFT" in printed and other_printed == ""
    assert other_error == "jaxsim: process 1 is done; the results are with process 0\n"
    assert not list((tmp_path / "1").iterdir())
    assert found or not Path("/proc/self/fd").exists()
    assert found <= {f"0100007F:{port:04X}", f"0000000000000000FFFF00000100007F:{port:04X}"}, "not only at loopback"


def test_what_process_0_refuses_all_refuse(tmp_path: Path) -> None:
    processes, _ = start(tmp_path, "--set", "cluster.instances.0.kv_cache.num_blocks=5")
    outputs = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [2, 2], outputs
    for output in outputs:
        assert "cannot serve request" in output


def test_bytes_between_processes_hold_no_pickle() -> None:
    assert decoded(encoded(None)) is None
    assert isinstance(decoded(encoded(KeyboardInterrupt())), KeyboardInterrupt)
    error = decoded(encoded(ValueError("no such thing")))
    assert isinstance(error, ValueError) and str(error) == "no such thing"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--coordinator", "127.0.0.1:9000"], "must be given together"),
        (["--coordinator", "here"], "must be HOST:PORT"),
        (
            ["--coordinator", "127.0.0.1:9000", "--num-processes", "2", "--process-id", "2"],
            "--process-id must be less than --num-processes (2), not 2",
        ),
        (["--resume"], "--resume needs --out"),
    ],
)
def test_options_that_do_not_go_together(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", chunks.write(tmp_path), *options]) == 2
    assert message in capsys.readouterr().err
