"""``tools/preflight.py``: every check passes where it should, and is seen failing."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import preflight as tool
import pytest

from formats.models import PRESETS
from hiqcache.codecs.layout import UnitLayout
from machine import asked as asking
from machine import cgroup, checks, compilers, driver, installed, memory, pinning, pool
from machine.asked import Asked
from machine.compilers import Compilers, check_compilers, read_compilers
from machine.conformance import MANIFEST, check_conformance
from machine.devices import Device, Torch, check_devices, read_torch
from machine.driver import Driver, check_driver, read_driver
from machine.finding import Finding, Status, failed, passed, skipped
from machine.fit import check_capacity, check_codec, check_rows, judge_rows
from machine.installed import Installed, check_library, check_requirements, check_sglang
from machine.memory import RESERVE, available_bytes, check_memory
from machine.pinning import check_pinning, check_shared
from machine.pool_process import _compare
from patchstack.context import ROOT
from patchstack.errors import Exit
from patchstack.revisions import load_revisions
from patchstack.wheel import own_version
from tests.unit.refusing import refusal

torch = pytest.importorskip("torch")

H100 = Device("FAKE H100", (9, 0), 80 * 2**30)
#: What torch says on machines that are not here.
FAKE_GPU = Torch("2.14.1+cu130", "13.0", (H100,))
FAKE_NO_GPU = Torch("2.14.1+cu130", "13.0", problem="CUDA driver initialization failed")
CPU_BUILD = Torch("2.14.1+cpu", None, problem="torch is a build without CUDA")


def wanted(
    codec: str = "int8-hadamard", page: int = 64, tp: int = 1, nodes: int = 1, size: int = 8
) -> Asked:
    return asking.asked("qwen3-8b", codec, page, tp, nodes, size)


def ended(finding: Finding, status: str, said: str, step: str = "") -> None:
    """Assert how a check ended; what fails or is skipped has a next step, or says why not."""
    assert (finding.status, said in finding.said) == (status, True), finding
    assert step in finding.next_step, finding
    assert bool(finding.next_step) or finding.status is not Status.FAIL
    assert "\n" not in finding.line()


def program(folder: Path, name: str, script: str) -> Path:
    """Write a program that stands for one that is not here."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def run(
    *arguments: str, fakes: Path | None = None, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the tool as a user does, with programs and modules of the test before the real ones."""
    environment = {**os.environ, "PYTHONPATH": str(path or "")}
    if fakes:
        environment["PATH"] = f"{fakes}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, str(ROOT / "tools" / "preflight.py"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def by_check(output: str) -> dict[str, dict[str, str]]:
    return {check["check"]: check for check in json.loads(output)["checks"]}


ALL = [
    "codec", "rows", "capacity", "host memory", "driver", "devices", "pinning", "shared memory",
    "compilers", "sglang", "hiqcache", "requirements", "conformance", "mover", "round trip",
]  # fmt: skip


# --- the tool as a user runs it ----------------------------------------------------------------


def test_a_run_has_a_line_for_each_check(tmp_path: Path) -> None:
    done = run("--json", str(file := tmp_path / "report.json"), "--hicache-size", "1")
    *lines, counts = done.stdout.splitlines()
    assert done.stderr == ""
    found = by_check(file.read_text())
    assert list(found) == ALL
    assert [line.split()[0] for line in lines] == [check["status"] for check in found.values()]
    assert found["conformance"]["status"] == "pass"
    fails = sum(check["status"] == "fail" for check in found.values())
    assert f"{fails} fail" in counts
    assert done.returncode == (1 if fails else 0)


def test_more_than_any_machine_has_fails() -> None:
    done = run("--quick", "--hicache-size", "1000000", "--json")
    assert done.returncode == 1
    host = by_check(done.stdout)["host memory"]
    assert host["status"] == "fail"
    assert "free or rent more host memory" in host["next_step"]


def test_a_driver_without_a_torch_for_it_fails(tmp_path: Path) -> None:
    program(tmp_path, "nvidia-smi", 'echo "580.65.06"')
    done = run("--quick", "--json", fakes=tmp_path)
    found = by_check(done.stdout)["driver"]
    if read_torch().cuda is None:
        assert done.returncode == 1
        assert found["status"] == "fail"
        assert "580.65.06 is here, and torch" in found["said"]


def test_a_driver_that_does_not_answer_fails(tmp_path: Path) -> None:
    program(tmp_path, "nvidia-smi", 'echo "Failed to initialize NVML"; exit 9')
    done = run("--quick", "--json", fakes=tmp_path)
    assert done.returncode == 1
    said = by_check(done.stdout)["driver"]
    assert (said["status"], said["said"]) == ("fail", "nvidia-smi: Failed to initialize NVML")


def test_an_sglang_without_the_series_fails(tmp_path: Path) -> None:
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / "__init__.py").write_text("raise SystemExit('imported')")
    done = run("--quick", path=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    (line,) = (line for line in done.stdout.splitlines() if line[6:].startswith("sglang"))
    assert line.startswith("fail") and "is not patched; install the wheels" in line


# --- the command line --------------------------------------------------------------------------


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with memory for everything."""
    monkeypatch.setattr(checks, "available_bytes", lambda: 10**14)
    monkeypatch.setattr(checks, "read_torch", lambda: CPU_BUILD)
    monkeypatch.setattr(checks, "read_driver", lambda: None)
    monkeypatch.setattr(checks, "read_installed", Installed)


def test_exit_codes(
    large: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.main(["--quick"]) == Exit.DONE
    assert capsys.readouterr().out.splitlines()[-1] == "5 pass, 0 fail, 10 skip"
    assert tool.main(["--quick", "--strict"]) == Exit.FINDINGS
    monkeypatch.setattr(checks, "available_bytes", lambda: 10**10)
    assert tool.main(["--quick"]) == Exit.FINDINGS


def test_json_in_place_of_the_lines(large: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["--quick", "--tp", "2", "--json"]) == Exit.DONE
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert err == ""
    assert (report["schema"], report["arguments"]["tp"]) == (tool.SCHEMA, 2)
    assert [check["check"] for check in report["checks"]] == ALL


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--model", "gpt-5"],
            "--model gpt-5 is neither a folder nor a known model; give a folder",
        ),
        (["--model", "docs"], "docs/config.json does not exist; give a folder with a config.json"),
        (["--codec", "int7"], "--codec int7 is unknown; choose int8, int8-hadamard"),
        (["--tp", "3"], "--tp 3: 32 heads with 8 KV heads do not divide among 3 ranks"),
        (["--tp", "4", "--nodes", "3"], "--tp 4 ranks do not divide among --nodes 3"),
        (["--tp", "0"], "argument --tp: 0 is not from 1 to 1,000,000,000"),
        (["--hicache-size", "0.5"], "argument --hicache-size: invalid whole value: '0.5'"),
        (["--page-size", "1" + "0" * 40], "0 is not from 1 to 1,000,000,000"),
        (["--json", "tests"], "--json tests is a folder; name a file in it"),
        (["--json", "no/where.json"], "--json no/where.json: no such folder; mkdir -p no"),
        (["--wrong"], "unrecognized arguments: --wrong; see preflight.py --help"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.main(arguments) == Exit.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("preflight.py: ") and said in err
    assert err.count("\n") == 1


def test_help_has_an_example_and_needs_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; sys.path.insert(0, 'tools'); "
        "import preflight; preflight.main(['--help'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "tools/preflight.py --model qwen3-8b --codec int8-hadamard" in done.stdout


def test_a_line() -> None:
    assert passed("rows", "fine").line() == "pass  rows          fine"
    assert failed("rows", "not\nfine", "go").line() == "fail  rows          not fine; go"
    assert skipped("rows", "no GPU", "go").line() == "skip  rows          (no GPU); go"
    assert skipped("rows", "no GPU").line() == "skip  rows          (no GPU)"


# --- the model and the codec -------------------------------------------------------------------


def test_a_model_is_a_folder_or_a_name(tmp_path: Path) -> None:
    qwen = PRESETS["qwen3-8b"]
    assert asking.find_model("qwen3-8b") == asking.find_model("Qwen/Qwen3-8B") == qwen
    config = {"num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
              "head_dim": 128, "hidden_size": 4096}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert asking.find_model(str(tmp_path)) == qwen
    (tmp_path / "config.json").write_text(json.dumps(config | {"kv_lora_rank": 512}))
    assert "its KV is latent" in str(refusal(lambda: asking.find_model(str(tmp_path))))


def test_a_codec_that_serves_the_model() -> None:
    ended(check_codec(wanted()), "pass", "74,880 bytes a token (147,456 raw, 1.969x)")
    ended(check_rows(wanted()), "pass", "2 x 40 rows of 1,664 bytes, whole groups of 128")
    ended(check_capacity(wanted()), "pass", "--hicache-size 8 holds 106,880 tokens, 54,272 raw")


def test_a_codec_that_saves_nothing_fails_once() -> None:
    asked = wanted("int8", page=1, tp=8)
    ended(check_codec(asked), "fail", "saves nothing for 1 KV heads of 128", "tools/capacity.py")
    for finding in (check_rows(asked), check_capacity(asked), check_memory(asked, 10**12)):
        ended(finding, "skip", "the codec does not serve this model", "see codec")


@pytest.mark.parametrize(
    ("row", "rows", "why"),
    [
        (1000, 1, "a row is not whole groups of 128 bytes"),
        (4096, 1, "a row is above 2,048 bytes"),
        (1664, 39, "the rows are not the unit"),
    ],
)
def test_rows_that_the_mover_does_not_take_fail(row: int, rows: int, why: str) -> None:
    class OddlyCut(UnitLayout):
        mover_row_bytes = property(lambda self: row)
        rows_per_half = property(lambda self: rows)

    ended(judge_rows(OddlyCut(64, 66_560, 66_560)), "fail", why, "block_bytes")
    ended(judge_rows(UnitLayout(64, 66_560, 66_560)), "pass", "2 x 40 rows of 1,664 bytes")


def test_a_budget_below_a_page_fails() -> None:
    ended(check_capacity(wanted(page=20_000, size=1)), "fail", "holds no page of 20,000 tokens")


# --- host memory -------------------------------------------------------------------------------


def test_the_budget_is_what_sglang_leaves_divided_among_the_ranks_here() -> None:
    pool = 106_880 * 74_880
    ended(check_memory(wanted(), RESERVE + pool), "pass", "8.0 GB for each of 1 rank(s) here")
    short = check_memory(wanted(), RESERVE + pool - 1)
    ended(short, "fail", "of 8.0 GB that SGLang lets each have", "--hicache-size 7, or free")
    two = wanted(tp=2)
    each = 213_696 * 37_440
    ended(check_memory(two, RESERVE + 2 * each), "pass", "for each of 2 rank(s) here")
    ended(check_memory(two, RESERVE + 2 * each - 2), "fail", "for each of 2 rank(s) here")
    apart = wanted(tp=2, nodes=2)
    ended(check_memory(apart, RESERVE + each), "pass", "for each of 1 rank(s) here")
    ended(check_memory(wanted(), RESERVE), "fail", "of 0.0 GB", "free or rent more host memory")


def host(folder: Path, cgroups: str, mounts: str) -> Path:
    """Write the process file system of a machine with 64 GB available."""
    proc = folder / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 90000000 kB\nMemAvailable: 62500000 kB\n")
    (proc / "self" / "cgroup").write_text(cgroups)
    (proc / "self" / "mountinfo").write_text(mounts)
    return proc


def group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


def test_a_machine_without_limits(tmp_path: Path) -> None:
    assert available_bytes(host(tmp_path, "", "")) == 64_000_000_000
    assert cgroup.headroom(tmp_path / "nowhere") is None


def test_the_nearest_limit_of_the_second_version_counts(tmp_path: Path) -> None:
    mount = tmp_path / "cgroup"
    mounts = f"31 23 0:28 / {mount} rw,relatime - cgroup2 cgroup2 rw\n"
    proc = host(tmp_path, "0::/pod/container\n", mounts)
    group(mount / "pod/container", memory__max="max", memory__high="max", memory__current="5")
    assert available_bytes(proc) == 64_000_000_000
    group(mount / "pod", memory__max="30000000000", memory__current="9000000000",
          memory__stat="active_file 1000000000\ninactive_file 2000000000\nfile 1")  # fmt: skip
    assert available_bytes(proc) == 24_000_000_000
    group(mount / "pod/container", memory__high="20000000000", memory__current="1000000000")
    assert available_bytes(proc) == 19_000_000_000
    group(mount / "pod/container", memory__high="1", memory__current="2")
    assert available_bytes(proc) == 0


def test_limits_of_the_first_version_in_a_container(tmp_path: Path) -> None:
    """Its own group is mounted; the path of its membership is the host's."""
    mount = tmp_path / "memory"
    mounts = (
        f"35 31 0:32 /docker/abc {mount} rw - cgroup cgroup rw,memory\n"
        f"36 31 0:33 /docker/abc {tmp_path / 'cpu'} rw - cgroup cgroup rw,cpu\n"
    )
    proc = host(tmp_path, "4:memory:/docker/abc\n3:cpu:/docker/abc\n", mounts)
    group(mount, memory__limit_in_bytes="16000000000", memory__usage_in_bytes="4000000000",
          memory__stat="total_active_file 500000000\ntotal_inactive_file 500000000")  # fmt: skip
    assert available_bytes(proc) == 13_000_000_000
    elsewhere = host(tmp_path / "b", "4:memory:/elsewhere\n", mounts)
    assert available_bytes(elsewhere) == 13_000_000_000


def test_this_machine_has_memory() -> None:
    assert 0 < available_bytes() < 2**60
    assert memory.available_bytes() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


# --- pinning and shared memory -----------------------------------------------------------------


def test_memory_that_cuda_does_not_pin_fails() -> None:
    registered: list[int] = []

    def fake_register(size: int) -> str | None:
        registered.append(size)
        return None if size < 2**20 else "out of memory"

    limited = check_pinning(wanted(), FAKE_GPU, 8 * 2**20, fake_register)
    ended(limited, "fail", "pin 1,073,741,824 bytes: out of memory; ulimit -l is 8,192 KiB")
    assert "--ulimit memlock=-1" in limited.next_step
    ended(check_pinning(wanted(), FAKE_GPU, None, lambda size: None), "pass", "no limit")
    ended(check_pinning(wanted(), CPU_BUILD, 65_536, fake_register), "skip", "ulimit -l is 64 KiB")
    assert registered == [2**30], "and nothing without a device"


@pytest.mark.skipif(torch.version.cuda is not None, reason="torch could pin memory")
def test_a_device_that_is_lost_fails() -> None:
    """The real registration, which this torch cannot make."""
    ended(checks._pinning(wanted(), FAKE_GPU), "fail", "not compiled with CUDA", "see host memory")


def test_the_limit_is_the_process_own() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (4096, hard))
    try:
        assert pinning.locked_limit() == 4096
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (soft, hard))


def test_ranks_need_shared_memory(tmp_path: Path) -> None:
    ended(check_shared(wanted(tp=2), 64 * 2**20), "fail", "67,108,864 bytes; NCCL wants 1 GiB")
    ended(check_shared(wanted(tp=2), None), "fail", "there is no /dev/shm", "--shm-size")
    ended(check_shared(wanted(tp=2), 2**30), "pass", "1,073,741,824 bytes, for NCCL")
    ended(check_shared(wanted(), 64 * 2**20), "pass", "one rank needs none")
    ended(check_shared(wanted(tp=2, nodes=2), None), "pass", "one rank needs none")
    assert (pinning.shared_bytes(tmp_path) or 0) > 0
    assert pinning.shared_bytes(tmp_path / "nowhere") is None


# --- the driver, the devices, the compilers ----------------------------------------------------


def test_the_driver_that_cuda_needs() -> None:
    ended(check_driver(FAKE_GPU, Driver("580.65.06")), "pass", "which runs on 580 and later")
    old = check_driver(FAKE_NO_GPU, Driver("575.57.08"))
    ended(
        old, "fail", "575.57.08; torch 2.14.1+cu130 is built with CUDA 13.0", "driver 580 or later"
    )
    ended(check_driver(FAKE_GPU, Driver("575.57.08")), "pass", "forward compatibility")
    ended(check_driver(FAKE_GPU, None), "pass", "nvidia-smi is not here")
    ended(check_driver(CPU_BUILD, None), "skip", "no NVIDIA driver", "rent a machine with a GPU")
    ended(check_driver(CPU_BUILD, Driver("580.1")), "fail", "a build without CUDA", "install the")
    ended(check_driver(FAKE_GPU, Driver(problem="broken")), "fail", "broken", "repair")
    later = replace(FAKE_GPU, cuda="14.0")
    ended(check_driver(later, Driver("700.1")), "pass", "is not known here")
    ended(check_driver(FAKE_NO_GPU, Driver("[N/A]")), "fail", "[N/A]; torch")


def test_nvidia_smi_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read_driver() is None
    file = program(tmp_path, "nvidia-smi", 'echo "$1" >&2; printf "580.65.06\\n580.65.06\\n"')
    assert read_driver() == Driver("580.65.06")
    program(tmp_path, "nvidia-smi", "exit 6")
    assert read_driver() == Driver(problem="nvidia-smi: it says nothing")
    program(tmp_path, "nvidia-smi", "exec /bin/sleep 60")
    monkeypatch.setattr(driver, "_PATIENCE_S", 0.05)
    assert "timed out" in (read_driver() or Driver()).problem
    file.write_bytes(b"no program")
    assert "cannot be asked" in (read_driver() or Driver()).problem


def test_devices_that_sglang_serves_on() -> None:
    ended(check_devices(wanted(), FAKE_GPU, True), "pass", "FAKE H100 (sm_90)")
    step = "docker run --gpus all"
    ended(check_devices(wanted(), FAKE_NO_GPU, True), "fail", "initialization failed", step)
    ended(check_devices(wanted(), CPU_BUILD, False), "skip", "no GPU here", "rent a machine")
    ended(check_devices(wanted(), CPU_BUILD, True), "fail", "a build without CUDA", "see driver")
    ended(check_devices(wanted(tp=2), FAKE_GPU, True), "fail", "1 for 2 ranks", "smaller --tp")
    volta = replace(FAKE_GPU, devices=(replace(H100, capability=(7, 0)),))
    ended(check_devices(wanted(), volta, True), "fail", "sm_75 and above", "rent a newer GPU")
    turing = replace(FAKE_GPU, devices=(H100, replace(H100, capability=(7, 5))))
    ended(check_devices(wanted(tp=2), turing, True), "pass", "FP16 in place of BF16")


def test_what_torch_says_here(monkeypatch: pytest.MonkeyPatch) -> None:
    found = read_torch()
    assert (found.version, found.cuda) == (torch.__version__, torch.version.cuda)
    assert bool(found.devices) != bool(found.problem)
    if not found.devices:
        monkeypatch.setattr(torch.version, "cuda", "13.0")
        assert read_torch().problem != "torch is a build without CUDA"
        assert (read_torch().devices, read_torch().cuda_major) == ((), 13)


def test_compilers_of_the_cuda_of_torch() -> None:
    here = Compilers("/cuda/bin/nvcc", "13.0", "/usr/bin/c++", "/usr/bin/ninja")
    ended(check_compilers(FAKE_GPU, here), "pass", "nvcc 13.0 (/cuda/bin/nvcc), /usr/bin/c++")
    ended(check_compilers(CPU_BUILD, here), "skip", "nothing is compiled", "see devices")
    for change, said, step in [
        ({"cuda": None}, "/cuda/bin/nvcc does not run", "CUDA_HOME"),
        ({"cuda": "12.9"}, "nvcc is of CUDA 12.9, torch 2.14.1+cu130 of CUDA 13.0", "of CUDA 13"),
        ({"cxx": None}, "no C++ compiler", "g++"),
        ({"ninja": None}, "no ninja", "pip install ninja"),
    ]:
        ended(check_compilers(FAKE_GPU, replace(here, **change)), "fail", said, step)


def test_compilers_are_looked_for_as_sglang_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CUDA_HOME", "CUDA_PATH", "CXX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "a/bin"))
    assert read_compilers() == Compilers(*_nvcc("/usr/local/cuda"), None, None)
    program(tmp_path / "a/bin", "nvcc", 'echo "Cuda compilation tools, release 13.0, V13.0.88"')
    program(tmp_path / "a/bin", "c++", "")
    program(tmp_path / "a/bin", "ninja", "")
    found = read_compilers()
    assert (found.cuda, found.nvcc) == ("13.0", str(tmp_path / "a/bin/nvcc"))
    assert (found.cxx, found.ninja) == (str(tmp_path / "a/bin/c++"), str(tmp_path / "a/bin/ninja"))
    program(tmp_path / "b/bin", "nvcc", 'echo "release 12.9"')
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "b"))
    monkeypatch.setenv("CXX", "nowhere")
    found = read_compilers()
    assert (found.cuda, found.cxx) == ("12.9", None)
    program(tmp_path / "b/bin", "nvcc", "echo nothing of the kind")
    assert read_compilers().cuda is None


def _nvcc(home: str) -> tuple[str, str | None]:
    nvcc = f"{home}/bin/nvcc"
    return nvcc, compilers._release(nvcc)


# --- what is installed -------------------------------------------------------------------------

REVISIONS = load_revisions(ROOT / "patches" / "revisions.toml")
PATCHED = REVISIONS.get("pin").patched_version
OWN = own_version(ROOT)


def wheel(folder: Path, name: str, version: str, *requirements: str) -> None:
    """Install a package as pip would, without its content."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = [f"Requires-Dist: {requirement}" for requirement in requirements]
    head = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    (info / "METADATA").write_text("\n".join([*head, *lines, ""]))
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "__init__.py").touch()


def series(folder: Path) -> None:
    file = folder / "sglang/srt/mem_cache/pool_host/l2_codec.py"
    file.parent.mkdir(parents=True)
    file.touch()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages that is looked in first."""
    (folder := tmp_path / "site").mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


def test_no_sglang_is_skipped() -> None:
    none = Installed()
    ended(check_sglang(none), "skip", "SGLang is not installed here", "tools/apply.py --rev pin")
    ended(check_library(none), "skip", "which hiqcache it needs", "see sglang")
    ended(check_requirements(none, FAKE_GPU), "skip", "what it requires", "see sglang")


def test_the_patched_release(site: Path) -> None:
    series(site)
    wheel(site, "sglang", PATCHED, f"hiqcache=={OWN}", "torch>=2", 'nowhere; extra == "all"')
    wheel(site, "hiqcache", OWN)
    found = installed.read_installed()
    ended(check_sglang(found), "pass", f"{PATCHED}, patched")
    ended(check_library(found), "pass", f"{OWN}, that of these tools, as SGLang requires")
    ended(check_requirements(found, FAKE_GPU), "pass", "all of SGLang")
    ended(check_requirements(found, CPU_BUILD), "skip", "on a CPU", "see devices")


def test_an_unpatched_release_fails(site: Path) -> None:
    wheel(site, "sglang", "0.5.23")
    found = installed.read_installed()
    ended(check_sglang(found), "fail", "0.5.23 in", "uninstall the other one")
    ended(check_library(found), "skip", "no installed patched SGLang", "see sglang")


def test_a_release_of_another_series_fails(site: Path) -> None:
    series(site)
    wheel(site, "sglang", "0.5.23+hiqcache.99")
    ended(check_sglang(installed.read_installed()), "fail", "but not by this checkout")


def test_a_source_tree_does_not_tell_its_version(site: Path, tmp_path: Path) -> None:
    wheel(tmp_path / "elsewhere", "sglang", "0.5.23")
    series(site)
    (site / "sglang" / "__init__.py").touch()
    sys.path.append(str(tmp_path / "elsewhere"))
    try:
        found = installed.read_installed()
    finally:
        sys.path.remove(str(tmp_path / "elsewhere"))
    assert found.version is None
    ended(check_sglang(found), "pass", "a patched source tree")


@pytest.mark.parametrize(
    ("here", "required", "said"),
    [
        ("9.9", f"hiqcache=={OWN}", f"9.9 is installed, and these tools are of {OWN}"),
        (OWN, "hiqcache==9.9", f"SGLang requires hiqcache==9.9 ({OWN} is installed)"),
    ],
)
def test_versions_that_do_not_agree_fail(site: Path, here: str, required: str, said: str) -> None:
    series(site)
    wheel(site, "sglang", PATCHED, required)
    wheel(site, "hiqcache", here)
    ended(check_library(installed.read_installed()), "fail", said, "tools/apply.py --rev pin")


def test_a_library_that_is_not_installed_fails() -> None:
    found = Installed(Path("sglang"), True, PATCHED, (f"hiqcache=={OWN}",), None)
    ended(check_library(found), "fail", f"none is installed, and these tools are of {OWN}")


def test_requirements_that_are_not_met_fail(site: Path) -> None:
    wheel(
        site, "sglang", PATCHED, "torch==0.1", "nowhere-to-be-had", "pytest>=8", "numpy==0", "pip<1"
    )
    found = installed.read_installed()
    finding = check_requirements(found, FAKE_GPU)
    ended(finding, "fail", "4 of 5 are not met: torch==0.1 (", "without --no-deps")
    assert "nowhere-to-be-had (not installed); numpy==0" in finding.said
    assert finding.said.endswith("; ...")


def test_a_build_of_a_required_release_is_that_release(site: Path) -> None:
    wheel(site, "made_up", "2.14.1+cu130")
    assert installed.unmet(["made-up==2.14.1", "made-up>=2.15"]) == [
        "made-up>=2.15 (2.14.1+cu130 is installed)"
    ]


# --- the bytes ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def manifest() -> Any:
    return json.loads((ROOT / MANIFEST).read_text())


def test_one_other_digest_fails(manifest: Any, tmp_path: Path) -> None:
    name = "int8/3x64-bf16/p16"
    manifest["vectors"][name]["units"] = "0" * 64
    (file := tmp_path / "manifest.json").write_text(json.dumps(manifest))
    finding = check_conformance("int8", "cpu", file)
    ended(finding, "fail", f"1 differences on cpu; {name}: units differs", "do not serve int8 here")


def test_a_manifest_that_cannot_be_read_fails(tmp_path: Path) -> None:
    (file := tmp_path / "manifest.json").write_text("[]")
    ended(check_conformance("int8", "cpu", file), "fail", "is no manifest", "restore the manifest")
    ended(check_conformance("int8", "cpu", tmp_path / "nowhere"), "fail", "No such file")
    ended(check_conformance("int8", "abacus"), "fail", "--device abacus cannot be used")


def test_another_packages_codec_has_no_committed_bytes() -> None:
    ended(check_conformance("theirs", "cpu"), "skip", "the manifest has none of its vectors")


# --- SGLang's pool, as far as it can be seen without SGLang ------------------------------------

SERIES_ONLY = Installed(Path("sglang"), True)


def test_without_sglang_the_pool_is_skipped() -> None:
    for finding in pool.check_pool(wanted(), FAKE_GPU, Installed()):
        ended(finding, "skip", "no patched SGLang here", "see sglang")


def test_an_sglang_that_does_not_import_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sglang").mkdir()
    said = "raise ImportError('libcudart.so.13: cannot open shared object file')"
    (tmp_path / "sglang" / "__init__.py").write_text(f"print('noise')\n{said}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    mover, round_trip = pool.check_pool(wanted(), CPU_BUILD, SERIES_ONLY)
    ended(mover, "skip", "no CUDA device", "see devices")
    ended(round_trip, "fail", "ImportError: libcudart.so.13", "see requirements")
    for finding in pool.check_pool(wanted(), FAKE_GPU, SERIES_ONLY):
        ended(finding, "fail", "SGLang's process ended: ImportError")


def test_an_sglang_that_does_not_end_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / "__init__.py").write_text("import time; time.sleep(600)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(pool, "_PATIENCE_S", 5.0)
    (_, round_trip) = pool.check_pool(wanted(), CPU_BUILD, SERIES_ONLY)
    ended(round_trip, "fail", "was not done in 5 s")


def test_one_other_value_is_found() -> None:
    k, v = torch.randn(2, 64, 8, 128).bfloat16()
    _compare(0, (k, v), (k.clone(), v.clone()))
    other = v.clone()
    other[3, 1, 5] += 1
    with pytest.raises(RuntimeError, match="1 of 65,536 values of V in layer 3"):
        _compare(3, (k, v), (k, other))
    assert not torch.equal(k, v)
