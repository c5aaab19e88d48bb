"""A page as headless Chromium shows it: measured, or as a picture.

The page is shown in a frame of the width that is asked for, since a window of Chromium's has a
least width which is more than a phone's.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT_S = 120
#: Quiet, alone, and without a trace.
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--force-device-scale-factor=1", "--virtual-time-budget=10000",
)  # fmt: skip
_MARK = "measured-by-the-test"
_SCRIPT = Path(__file__).with_name("measure.js")


def find_chromium() -> str | None:
    """Return the program, if there is one."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


@dataclass(frozen=True)
class Browser:
    """Chromium, and a folder for what it and the pages need."""

    program: str
    folder: Path

    def measure(self, page: str, width: int) -> dict[str, Any]:
        """Lay a page out, and return what measure.js says of it."""
        said = self._run(self._framed(page, width, 1000), width, 1000, "--dump-dom")
        found = re.search(rf'<pre id="{_MARK}">(.*?)</pre>', said, re.DOTALL)
        assert found, said[-2000:]
        return json.loads(html.unescape(found[1]))

    def picture(self, page: str, width: int, height: int, file: Path) -> None:
        """Write the upper part of a page as PNG."""
        shown = self._framed(page, width, height)
        self._run(shown, width, height, f"--screenshot={file}")

    def _framed(self, page: str, width: int, height: int) -> Path:
        file = self.folder / "framed.html"
        frame = (
            f'<iframe id="page" style="border:0;width:{width}px;height:{height}px" '
            f'srcdoc="{html.escape(page)}"></iframe>'
        )
        script = _SCRIPT.read_text(encoding="utf-8")
        body = f'<body style="margin:0">{frame}<pre id="{_MARK}"></pre><script>{script}</script>'
        file.write_text(f"<!doctype html>{body}", encoding="utf-8")
        return file

    def _run(self, file: Path, width: int, height: int, action: str) -> str:
        profile = self.folder / "profile"
        shutil.rmtree(profile, ignore_errors=True)
        profile.mkdir()
        size = f"--window-size={max(width, 500)},{height}"
        command = [self.program, *_OPTIONS, f"--user-data-dir={profile}", size, action]
        done = subprocess.run(
            [*command, file.as_uri()], capture_output=True, text=True, timeout=TIMEOUT_S
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout
