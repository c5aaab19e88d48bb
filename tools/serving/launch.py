"""How SGLang's server is started: its command line, its environment, its files."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from serving.l2 import L2
from serving.pool_report import PLUGIN, VARIABLE

HOST = "127.0.0.1"

#: An alias of ``--hicache-l2-codec int8``. It would turn the raw L2 into an encoded one.
_CODEC_ALIAS = "SGLANG_EXPERIMENTAL_HICACHE_INT8"


@dataclass(frozen=True)
class Launch:
    """A server that can be started.

    Parameters
    ----------
    name
        What messages call it.
    command
        Program and arguments.
    environment
        All of its environment.
    port
        Where it listens on ``127.0.0.1``.
    log
        The file that takes its output.
    l2
        Its host cache, or None without one.
    pool_report
        The file that takes its host pool's figures.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    port: int
    log: Path
    l2: L2 | None
    pool_report: Path

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{HOST}:{self.port}"


@dataclass(frozen=True)
class Serving:
    """What is served, alike in every run of a comparison.

    Parameters
    ----------
    model
        A Hugging Face folder.
    l1_tokens, page_size
        The device cache.
    concurrency
        Requests that are served at a time.
    """

    model: Path
    l1_tokens: int
    page_size: int
    concurrency: int = 1


@contextmanager
def logs_folder(program: str) -> Iterator[Path]:
    """Give servers a temporary folder, which stays if something failed but not on Ctrl-C.

    Parameters
    ----------
    program
        What its name tells about it.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"hiqcache-{program}-"))
    failed = False
    try:
        yield folder
    except Exception:
        failed = True
        raise
    finally:
        if not failed:
            shutil.rmtree(folder)


def free_port() -> int:
    """Return a port on which nothing listens at the moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def sglang_launch(name: str, serving: Serving, l2: L2 | None, folder: Path) -> Launch:
    """Describe a server on this machine: on its GPU, or on its CPU where it has none.

    Parameters
    ----------
    name
        What messages call it, and what its files in ``folder`` are named after.
    serving
        The model and its device cache.
    l2
        The host cache, or None for a server without one.
    folder
        Where its log, its report and its temporary files go.
    """
    port = free_port()
    command = [
        *(sys.executable, "-m", "sglang.launch_server"),
        *("--model-path", str(serving.model), "--host", HOST, "--port", str(port)),
        *device_options(),
        *("--grammar-backend", "none"),
        *("--max-total-tokens", str(serving.l1_tokens), "--page-size", str(serving.page_size)),
        *("--max-running-requests", str(serving.concurrency), "--random-seed", "0"),
        *("--enable-metrics", "--enable-cache-report", "--sleep-on-idle"),
        *(l2.options() if l2 else []),
    ]
    report = folder / f"{name}.pool.jsonl"
    return Launch(
        name,
        tuple(command),
        _environment(report, folder),
        port,
        log=folder / f"{name}.log",
        l2=l2,
        pool_report=report,
    )


def device_options() -> tuple[str, ...]:
    """Return what a server on this machine has to be told about its device."""
    if _has_gpu():
        return ()
    return (
        *("--device", "cpu", "--attention-backend", "torch_native"),
        *("--sampling-backend", "pytorch"),
    )


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def _environment(report: Path, folder: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name != _CODEC_ALIAS}
    inherited_path = inherited.get("PYTHONPATH")
    return {
        # Threads that spin while they wait take the cores from each other as soon as anything
        # else runs; what that costs is tenfold. The user's own choice stands.
        "OMP_WAIT_POLICY": "PASSIVE",
        **inherited,
        **({} if _has_gpu() else {"SGLANG_USE_CPU_ENGINE": "1"}),
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(PLUGIN), inherited_path])),
        "TMPDIR": str(folder),
        VARIABLE: str(report),
    }
