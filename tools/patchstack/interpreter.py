"""An environment that can run a release, and a folder with the files that it runs.

The environment stays as it is: the files go before its own by ``PYTHONPATH``.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from patchstack.base import PACKAGE, PREFIX, is_source
from patchstack.children import ends_with_us
from patchstack.errors import Exit, ToolError

SERVER = f"{PACKAGE}.launch_server"
_LIBRARY = "hiqcache"
_PATIENCE = 900.0  # seconds that an import may take on a busy machine
_IMPORT = """\
import importlib, json, sys
failed = {}
for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        failed[name] = (f"{type(error).__name__}: {error}", missing or "")
open(sys.argv[1], "w").write(json.dumps(failed))
"""


@dataclass(frozen=True)
class Failure:
    """Why a module cannot be imported.

    Parameters
    ----------
    reason
        The error.
    missing
        The module that was not found, if that is the reason.
    """

    reason: str
    missing: str

    @property
    def is_foreign(self) -> bool:
        """Whether what is missing is neither the release's nor the project's: not installed."""
        return bool(self.missing) and self.missing.split(".")[0] not in (PACKAGE, _LIBRARY)


@dataclass(frozen=True)
class Interpreter:
    """An environment that can run the release, and a folder with the files that it runs.

    Parameters
    ----------
    python
        The interpreter.
    folder
        A folder with ``tree``, the files, and ``library``, what they need of the project.
    """

    python: Path
    folder: Path

    @property
    def tree(self) -> Path:
        """The folder of the files."""
        return self.folder / "tree"

    def failing(self, modules: list[str]) -> dict[str, Failure]:
        """Return which of ``modules`` cannot be imported."""
        answer = self.folder / "answer.json"
        answer.unlink(missing_ok=True)
        done = self._run("-c", _IMPORT, str(answer), *modules)
        if not answer.exists():  # the import ended the interpreter
            return dict.fromkeys(modules, Failure(last_line(done), ""))
        return {name: Failure(*why) for name, why in json.loads(answer.read_text()).items()}

    def help(self) -> subprocess.CompletedProcess[str]:
        """Return what the server says about its options."""
        return self._run("-m", SERVER, "--help")

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        sources = self.tree / PurePosixPath(PREFIX).parent
        path = os.pathsep.join([str(sources), str(self.folder / "library")])
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [str(self.python), "-P", *arguments]
        try:
            return subprocess.run(
                command,
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                preexec_fn=ends_with_us(),
                timeout=_PATIENCE,
                text=True,
                errors="replace",
                check=False,
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 1, f"no answer after {_PATIENCE:.0f} s")


@contextmanager
def prepared(python: Path, library: Path, wheel: Path) -> Iterator[Interpreter]:
    """Give an interpreter its folder for a while.

    Parameters
    ----------
    python
        The interpreter of an environment that can run the release.
    library
        The project's ``hiqcache`` package, the only part of the project that it may see.
    wheel
        The release, for what its build generates and no commit holds.
    """
    with tempfile.TemporaryDirectory() as folder:
        interpreter = Interpreter(python, Path(folder))
        interpreter.tree.mkdir()
        (interpreter.folder / "library").mkdir()
        (interpreter.folder / "library" / _LIBRARY).symlink_to(library)
        sources = interpreter.tree / PurePosixPath(PREFIX).parent
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if (
                    name.startswith(f"{PACKAGE}/")
                    and not name.endswith("/")
                    and not is_source(name)
                ):
                    archive.extract(name, sources)
        yield interpreter


def require_interpreter(python: Path) -> None:
    """Refuse what is not an interpreter."""
    if not python.is_file() or not os.access(python, os.X_OK):
        raise ToolError(
            f"--python {python} is not an interpreter",
            "name the python of an environment with the CPU runtime (tools/cpu_runtime)",
            Exit.USAGE,
        )


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a process said last."""
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    return lines[-1] if lines else f"exit status {done.returncode}"
