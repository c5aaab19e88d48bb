"""The release's wheel: chosen by platform, fetched by pip, used only with the pinned digest."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from packaging.tags import sys_tags

from patchstack.children import ends_with_us
from patchstack.context import Context
from patchstack.errors import Exit, ToolError
from patchstack.report import Progress
from patchstack.revisions import PinnedWheel, Revision
from patchstack.swap import beside, claimed


def fitting_wheel(revision: Revision) -> PinnedWheel | None:
    """Return the wheel that this interpreter would install, if one is pinned."""
    for tag in sys_tags():
        for wheel in revision.wheels:
            if tag in wheel.tags:
                return wheel
    return None


def fetch_wheel(
    context: Context,
    revision: Revision,
    wheel: PinnedWheel,
    *,
    offline: bool,
    progress: Progress,
) -> Path:
    """Return the wheel's file in the cache, after fetching it there if it is not.

    A cached file with another digest than the pinned one is never used: it is fetched again, or
    refused when ``offline``.
    """
    cached = context.wheels / wheel.name
    if _is_whole(cached, wheel):
        return cached
    if offline:
        state = "is damaged" if cached.exists() else "is not in the cache"
        raise ToolError(f"{wheel.name} {state}", "run again without --offline", Exit.UPSTREAM)
    with claimed(cached, progress=progress):
        if not _is_whole(cached, wheel):  # unless the run that was waited for fetched it
            _fetch(revision, wheel, cached, progress)
    return cached


def _is_whole(cached: Path, wheel: PinnedWheel) -> bool:
    return cached.exists() and file_sha256(cached) == wheel.sha256


def _fetch(revision: Revision, wheel: PinnedWheel, cached: Path, progress: Progress) -> None:
    if cached.exists():
        progress.say(f"{wheel.name} is damaged in the cache; fetching it again")
    with beside(cached) as folder:
        fetched = _download(revision, wheel, folder, progress)
        digest = file_sha256(fetched)
        if digest != wheel.sha256:
            raise ToolError(
                f"{wheel.name} has sha256 {digest}, but revisions.toml pins {wheel.sha256}",
                "find out who changed the release before you trust either",
                Exit.UPSTREAM,
            )
        fetched.replace(cached)


def file_sha256(path: Path) -> str:
    """Return a file's sha256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def run_pip(version: str, command: list[str], progress: Progress) -> None:
    """Let pip do something with the wheel of one version and with nothing that it requires."""
    # -P: a pip.py in the current folder is not pip.
    done = subprocess.run(
        [
            *(sys.executable, "-P", "-m", "pip", *command, "--disable-pip-version-check"),
            *("--no-input", "--no-deps", "--only-binary", ":all:", f"sglang=={version}"),
        ],
        stdin=subprocess.DEVNULL,
        preexec_fn=ends_with_us(),
        # pip draws its bar on standard output; ours is kept for the result.
        stdout=sys.stderr.fileno() if progress.live else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ToolError(
            f"pip cannot fetch sglang=={version} ({_reason(done.stderr)})",
            "check the network, the disk and pip's index settings, then run again",
            Exit.UPSTREAM,
        )


def platform_options(wheel: PinnedWheel) -> list[str]:
    """Return the options that make pip fetch ``wheel`` wherever this runs."""
    tags = sorted(wheel.tags, key=str)
    options = ["--implementation", tags[0].interpreter[:2], "--abi", tags[0].abi]
    python = tags[0].interpreter[2:]
    if len(python) == 1:  # a wheel for every 3.x: pip would ask for 3.0
        python = f"{sys.version_info.major}{sys.version_info.minor}"
    options += ["--python-version", python]
    for tag in tags:
        options += ["--platform", tag.platform]
    return options


def _download(revision: Revision, wheel: PinnedWheel, folder: Path, progress: Progress) -> Path:
    progress.say(f"fetching {wheel.name}")
    options = [] if wheel == fitting_wheel(revision) else platform_options(wheel)
    run_pip(revision.version, ["download", "--dest", str(folder), *options], progress)
    fetched = folder / wheel.name
    if not fetched.exists():
        names = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
        raise ToolError(
            f"pip fetched {names} in place of {wheel.name}",
            "check pip's index settings, then run again",
            Exit.UPSTREAM,
        )
    return fetched


def _reason(stderr: str) -> str:
    """Return the line of pip's that says most: its last error, or else its last line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    errors = [line for line in errors if line != "Exception:"]  # a traceback follows
    return (errors or lines or ["pip gave no reason"])[-1]
