"""The Chromium that looks at pages: found on this machine, or installed by `python tests/browser.py`.

`JAXSIM_CHROMIUM=/path/to/chromium` names one. Where none can be had, `JAXSIM_NO_BROWSER=1` leaves the tests that need
one out, and says so; without it they fail.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MISSING = (
    "no Chromium on this machine: run `python tests/browser.py` (as root on Debian), or name one in JAXSIM_CHROMIUM, "
    "or set JAXSIM_NO_BROWSER=1 to leave these tests out"
)
_COMMANDS = (
    ("apt-get", "update", "-qq"),
    ("apt-get", "install", "-qq", "-y", "--no-install-recommends", "chromium-headless-shell", "fonts-dejavu-core"),
    (sys.executable, "-m", "playwright", "install", "--only-shell", "chromium"),
)


def find() -> str | None:
    """Path of a Chromium; None if there is none."""
    named = os.environ.get("JAXSIM_CHROMIUM")
    if named:
        return named
    on_path = next(filter(None, map(shutil.which, NAMES)), None)
    return on_path or _downloaded()


def _downloaded() -> str | None:
    """The one that playwright downloaded."""
    cache = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    found = [*cache.glob("chromium*/*/headless_shell"), *cache.glob("chromium*/*/chrome-headless-shell")]
    return str(found[0]) if found else None


def install() -> str | None:
    """Install one by the ways there are, one after the other; returns its path, None if none worked."""
    for command in _COMMANDS:
        if command[0] == "apt-get" and (os.geteuid() != 0 or not shutil.which("apt-get")):
            continue
        print(*command, flush=True)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        try:
            subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, timeout=300, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            print(error)
        if path := find():
            return path
    return None


if __name__ == "__main__":
    path = find() or install()
    print(path or MISSING)
    sys.exit(0 if path else 1)
