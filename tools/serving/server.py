"""A server process: started, waited for, and gone with all its children when it is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from patchstack.errors import Exit, ToolError
from serving.client import Client, RequestError
from serving.launch import Launch
from serving.progress import Progress

_ERROR_LINE = re.compile(r"\b\w*(?:Error|Exception|error): ")
_LONGEST_QUOTE = 300
_POLL_S = 0.25


def last_words(log: Path) -> str:
    """Return the line of a log that tells best why its server ended: the last error, or line."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR_LINE.search(line)]
    told = (errors or lines or ["it wrote nothing"])[-1].strip()
    return told if len(told) <= _LONGEST_QUOTE else f"{told[:_LONGEST_QUOTE]}..."


@dataclass(frozen=True)
class Server:
    """A server that was started."""

    launch: Launch
    process: subprocess.Popen[bytes]

    def failure(self, what: str) -> ToolError:
        """Return the error for something that went wrong with this server."""
        return ToolError(
            f"the server {self.launch.name!r} {what}: {last_words(self.launch.log)}",
            f"read {self.launch.log}",
            Exit.FINDINGS,
        )

    def wait_until_ready(self, timeout_s: float = 600.0) -> None:
        """Return once the server is healthy.

        Raises
        ------
        ToolError
            If it ends first, or is not ready in time.
        """
        deadline = time.monotonic() + timeout_s
        while not self._is_healthy():
            if self.process.poll() is not None:
                raise self.failure(f"ended with code {self.process.returncode} as it started")
            if time.monotonic() > deadline:
                raise self.failure(f"was not ready after {timeout_s:.0f} s")
            time.sleep(_POLL_S)

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.launch.url}/health", timeout=30) as answer:
                return answer.status == 200
        except (OSError, HTTPException):
            return False


@contextmanager
def running(launch: Launch, grace_s: float = 20.0) -> Iterator[Server]:
    """Start a server and stop it on the way out, whatever the way is.

    Parameters
    ----------
    launch
        What to start.
    grace_s
        How long it may take to end by itself before it is killed.

    Raises
    ------
    ToolError
        If a request fails meanwhile, or a process is left that cannot be killed.
    """
    with launch.log.open("wb") as log:
        process = subprocess.Popen(
            launch.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=dict(launch.environment),
            # A session of its own: Ctrl-C reaches this process alone, which then stops the
            # server, and what the server started can be found.
            start_new_session=True,
        )
    server = Server(launch, process)
    try:
        yield server
    except RequestError as error:
        raise server.failure(f"failed a request ({error})") from error
    finally:
        with _uninterrupted():
            _stop(server, grace_s)


@contextmanager
def ready(launch: Launch, progress: Progress) -> Iterator[Client]:
    """Start a server, and give a client of it once it answers."""
    with running(launch) as server:
        progress.stage(f"L2 {launch.name}: starting SGLang")
        server.wait_until_ready()
        yield Client(launch.url)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold signals back, so that an impatient second Ctrl-C cannot cut the stop short."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _stop(server: Server, grace_s: float) -> None:
    """Ask the server to end, which lets it remove its temporary files; then kill what is left."""
    session = server.process.pid
    server.process.terminate()
    try:
        server.process.wait(grace_s)
    except subprocess.TimeoutExpired:
        server.process.kill()
        server.process.wait()
    deadline = time.monotonic() + grace_s
    while left := living(session):
        if time.monotonic() > deadline:
            raise server.failure(f"left processes that cannot be killed ({left})")
        for process in left:
            with suppress(ProcessLookupError):  # it ended by itself meanwhile
                os.kill(process, signal.SIGKILL)
        time.sleep(0.05)


def living(session: int) -> list[int]:
    """Return the processes of a session. Zombies are not: only their parent can end those."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The command's name, in brackets, may itself hold brackets and spaces.
            state, _, _, its_session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue  # it ended while it was looked at
        if int(its_session) == session and state not in "ZX":
            found.append(int(stat.parent.name))
    return found
