"""`--compile-cache` saves the next process the compiling, and nothing else changes."""

import json
import os
import subprocess
from pathlib import Path

from tests.simulate import chunks


def test_the_second_process_compiles_next_to_nothing(tmp_path: Path) -> None:
    scenario, seconds = chunks.write(tmp_path), []
    line = ["run", scenario, "--seeds", "4", "--set", "cluster.instances.0.kv_cache.num_blocks=null"]
    for name in ("first", "second"):
        out, cache = tmp_path / name, tmp_path / "cache"
        subprocess.run(
            chunks.command(*line, "--out", str(out), "--compile-cache", str(cache)),
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        seconds.append(json.loads((out / "manifest.json").read_text())["compile_seconds"])
    assert seconds[1] < 0.6 * seconds[0]
    for name in ("summary.json", "requests.csv"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
