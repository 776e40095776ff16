"""The folder of a run under way: each chunk of seeds is on disk as soon as it has finished.

    DIR/unfinished/run.json      what is being run
    DIR/unfinished/000007.csv    requests of one chunk, in the format asked for
    DIR/unfinished/000007.npz    what its seeds add up to; written last, so a chunk with this file is whole

A process that is killed loses the chunk it was at. When all chunks are there the results are put together, and
`unfinished` is removed.
"""

import json
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from jaxsim import tables
from jaxsim.result import UNFINISHED, Result, check_finished, replacing, write_outcome

COMPARED = ("scenario", "seeds", "requests", "versions", "device", "input_hashes")
"""What must be the same for a run to go on, in the order in which a difference is told."""


@dataclass(frozen=True, eq=False)
class Part:
    """What became of one chunk of seeds.

    Attributes:
        chunk: its number, from 0.
        arrays: what its seeds add up to, by name.
        requests: its part of the table of requests, as in a file; empty if none are written.
    """

    chunk: int
    arrays: Mapping[str, np.ndarray]
    requests: bytes


class Checkpoint:
    """A folder that a run writes its chunks into. Nothing is written before the first chunk has finished.

    Args:
        folder: where the results will be.
        run: what is being run, as plain data with the keys `COMPARED`; `run["requests"]` is the format of the table.
        seeds_per_chunk: how many seeds make a chunk; a run that goes on keeps the number it began with.
        resume: go on with the run that the folder holds, if it holds one.

    Raises:
        ValueError: the folder holds another run, or one that is still being written, or one to be resumed.
    """

    def __init__(self, folder: Path, run: Mapping[str, Any], seeds_per_chunk: int, resume: bool) -> None:
        self._folder = folder
        self._parts = folder / UNFINISHED
        self._run: dict[str, Any] = {**json.loads(json.dumps(run)), "seeds_per_chunk": seeds_per_chunk}
        self._lock: TextIO | None = None
        if not resume:
            check_finished(folder)
        elif (self._parts / "run.json").exists():
            there = _read_json(self._parts / "run.json")
            self._check_same(there, "an unfinished run")
            self._run = there
            self._claim()

    @property
    def seeds_per_chunk(self) -> int:
        """How many seeds make a chunk."""
        return int(self._run["seeds_per_chunk"])

    def complete(self) -> Result | None:
        """The results of this very run, if the folder holds them whole; to be asked when resuming.

        Raises:
            ValueError: it holds those of another run.
        """
        manifest = self._folder / "manifest.json"
        if self._lock or not manifest.exists():
            return None
        there = _read_json(manifest)
        self._check_same(there, "the results of another run")
        return Result(_read_json(self._folder / "summary.json"), None, there)

    def notices(self) -> list[str]:
        """What will happen to what the folder holds, in sentences for the user."""
        manifest = self._folder / "manifest.json"
        if self._lock or not manifest.exists():
            return []
        try:
            name = f"of {_read_json(manifest)['scenario']['name']!r} "
        except (ValueError, KeyError, TypeError):
            name = ""
        return [f"{self._folder} held the results {name}of an earlier run; they are replaced"]

    def finished(self) -> Iterator[Part]:
        """The chunks that have finished, in order, without their requests."""
        for file in sorted(self._parts.glob("*.npz")):
            chunk = int(file.stem)
            try:
                with file.open("rb") as opened, np.load(opened, allow_pickle=False) as saved:
                    arrays = dict(saved)
                size = int(arrays.pop("requests_bytes"))
                whole = not size or self._requests(chunk).stat().st_size == size
            except (OSError, ValueError, KeyError, zipfile.BadZipFile):
                whole = False
            if whole:  # else half a file, after a power cut
                yield Part(chunk, arrays, b"")

    def put(self, part: Part) -> None:
        """Write a chunk that has finished."""
        self._claim()
        if part.requests:
            with replacing(self._requests(part.chunk)) as path:
                path.write_bytes(part.requests)
        with replacing(self._parts / f"{part.chunk:06}.npz") as path, path.open("wb") as file:
            np.savez(file, allow_pickle=False, **part.arrays, requests_bytes=np.int64(len(part.requests)))

    def finish(self, summary: Mapping[str, Any], manifest: Mapping[str, Any], chunks: Iterable[int]) -> None:
        """Write the results of these chunks, and remove `unfinished` if the run was not interrupted."""
        (self._folder / "manifest.json").unlink(missing_ok=True)  # what is not whole has none
        requests = None
        if self._run["requests"] != "none":
            requests = self._folder / f"requests.{self._run['requests']}"
            whole = self._parts / requests.name
            tables.join([self._requests(chunk) for chunk in sorted(chunks)], self._run["requests"], whole)
            whole.replace(requests)
        write_outcome(self._folder, summary, manifest, requests)
        if not manifest["interrupted"]:
            (self._parts / "run.json").unlink()
            shutil.rmtree(self._parts)

    def close(self) -> None:
        """Let other runs write into the folder."""
        if self._lock:
            self._lock.close()

    def _requests(self, chunk: int) -> Path:
        return self._parts / f"{chunk:06}.{self._run['requests']}"

    def _claim(self) -> None:
        """Make `unfinished` this process's own, if it is not yet."""
        if self._lock:
            return
        self._parts.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self._parts / "lock", self._folder)
        run = self._parts / "run.json"
        if not run.exists():
            for file in self._parts.glob("0*"):
                file.unlink()  # of a run that was killed while it removed its parts
            with replacing(run) as path:
                path.write_text(json.dumps(self._run, indent=2) + "\n", encoding="utf-8")

    def _check_same(self, there: Mapping[str, Any], what: str) -> None:
        here = {key: self._run[key] for key in COMPARED}
        different = list(_differences({key: _only(there.get(key), here[key]) for key in COMPARED}, here))
        if different:
            more = f" (and {len(different) - 1} more)" if len(different) > 1 else ""
            raise ValueError(
                f"{self._folder} holds {what} that cannot be resumed: {different[0]}{more}; choose another folder, or "
                "run the same again"
            )


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(f"{path}: is not JSON; remove it, or choose another folder") from None


def _only(there: Any, here: Any) -> Any:
    """Of what a manifest says, what is compared."""
    return {key: there.get(key) for key in here} if isinstance(there, dict) and "workload" not in here else there


def _differences(there: Any, here: Any, name: str = "") -> Iterator[str]:
    """What differs between plain data, in words."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in {**there, **here}:
            whole = key if name in ("", "scenario") else f"{name}.{key}"
            yield from _differences(there.get(key, "missing"), here.get(key, "missing"), whole)
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for place, (one, other) in enumerate(zip(there, here, strict=True)):
            yield from _differences(one, other, f"{name}.{place}")
    elif there != here:
        yield f"{name} is {json.dumps(there)} there and {json.dumps(here)} here"


def _locked(path: Path, folder: Path) -> TextIO:
    """A file that no other process holds; the system lets go of it when this process ends, however it ends."""
    file = path.open("w")
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ValueError(f"{folder}: another process is writing a run into this folder") from None
    except (ImportError, OSError):
        pass  # no such locks on this system, or in this folder
    return file
