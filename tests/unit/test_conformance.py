"""``tools/conformance.py``: the bytes of every format, here and as they were committed."""

from __future__ import annotations

import json
from pathlib import Path

import conformance
import pytest
import torch

from formats import digests, vectors
from formats.catalogue import built_in
from formats.digests import PAGE_SIZES, Manifest, digest_units, fixed_inputs, make_manifest
from hiqcache.codecs import codec_class
from hiqcache.codecs.base import UnitWorkspace
from hiqcache.codecs.int8 import Int8Codec
from patchstack.errors import Exit
from patchstack.report import Progress
from tests.fixtures import int8_v1

COMMITTED = Path(int8_v1.__file__).with_name("conformance.json")
CPU = torch.device("cpu")
QUIET = Progress(quiet=True)


def generate(*arguments: str | Path) -> int:
    return conformance.main(["generate", "--quiet", *map(str, arguments)])


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two shapes are enough to test the tool."""
    monkeypatch.setattr(digests, "SHAPES", ((3, 64, 64), (2, 80, 96)))


@pytest.fixture
def expected(few: None, tmp_path: Path) -> Path:
    """A manifest of this machine."""
    file = tmp_path / "expected.json"
    assert generate("--json", file) == Exit.DONE
    return file


def test_every_format_gives_the_committed_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate("--expect", COMMITTED) == Exit.DONE
    out, err = capsys.readouterr()
    assert err == f"conformance.py: equal to {COMMITTED}\n"
    for name in built_in():
        assert f" {name} " in out


def test_the_committed_manifest_is_of_everything() -> None:
    manifest = digests.read_manifest(COMMITTED)
    names = [given.name for given in fixed_inputs()]
    assert list(manifest.inputs) == names and len(names) == 18
    assert manifest.vectors.keys() == {
        f"{codec}/{name}/p{page}" for codec in built_in() for name in names for page in PAGE_SIZES
    }
    assert manifest.made_with["device"] == "cpu"


@pytest.mark.parametrize("name", built_in())
def test_gaps_and_threads_change_no_byte(name: str) -> None:
    given = next(x for x in fixed_inputs() if x.name == "8x128-bf16")
    committed = digests.read_manifest(COMMITTED).vectors
    threads = torch.get_num_threads()
    for page_size in PAGE_SIZES:
        codec = codec_class(name)(given.geometry(page_size))
        for strided, count in ((True, 1), (False, 2), (True, 2)):
            torch.set_num_threads(count)
            try:
                made = digest_units(codec, given, CPU, strided)
            finally:
                torch.set_num_threads(threads)
            assert made == committed[f"{name}/{given.name}/p{page_size}"]


# --- the vectors -------------------------------------------------------------------------------


def test_noise_is_the_fixtures() -> None:
    numbers = range(0, 1 << 22, 9973)
    wanted = [int8_v1.scrambled(n) for n in numbers]
    assert vectors.scrambled(torch.tensor(numbers)).tolist() == wanted


@pytest.mark.parametrize("kind", vectors.NUMBERS)
def test_every_edge_of_a_number_is_there(kind: str) -> None:
    number = vectors.NUMBERS[kind]
    rows = vectors.rows(8, 128, number, first_head=0)
    tiny, largest = torch.finfo(number.dtype).tiny, torch.finfo(number.dtype).max
    magnitudes = rows.abs()
    assert rows.isnan().any() and rows.isinf().any()
    assert (magnitudes == largest).any()
    assert ((magnitudes > 0) & (magnitudes < tiny)).any()
    zeros = rows.view(torch.int16)[magnitudes == 0]
    assert set(zeros.tolist()) == {0, -0x8000}
    assert torch.tensor(number.infinity).short().view(number.dtype).isinf()
    assert torch.tensor(number.nan).short().view(number.dtype).isnan()
    finite = magnitudes[magnitudes.isfinite()].float()
    assert (finite.log2().floor().unique().numel()) > (24 if kind == "fp16" else 200)


def test_k_and_v_are_not_the_same_rows() -> None:
    for given in fixed_inputs():
        assert given.keys.shape[:2] == given.values.shape[:2] == (64, given.keys.shape[1])
        if given.keys.shape == given.values.shape:
            bits = (x.view(torch.int16) for x in (given.keys, given.values))
            assert not torch.equal(*bits)


# --- what differs is named ---------------------------------------------------------------------


def test_the_same_machine_gives_the_same(
    expected: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert generate("--expect", expected, "--json") == Exit.DONE
    out, err = capsys.readouterr()
    assert Manifest(**json.loads(out)) == digests.read_manifest(expected)
    assert generate("--expect", expected, "--strided") == Exit.DONE
    assert err == capsys.readouterr().err == f"conformance.py: equal to {expected}\n"


def test_one_bit_of_one_unit_is_found(
    expected: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    encode = Int8Codec.encode

    def flipped(
        self: Int8Codec, k: torch.Tensor, v: torch.Tensor, u: torch.Tensor, ws: UnitWorkspace
    ) -> None:
        encode(self, k, v, u, ws)
        g = self.geometry
        if (g.head_dim, g.page_size, g.dtype) == (80, 16, torch.float16):
            u[0, 5] ^= 1

    monkeypatch.setattr(Int8Codec, "encode", flipped)
    capsys.readouterr()
    assert generate("--expect", expected) == Exit.FINDINGS
    assert capsys.readouterr().err.splitlines() == [
        f"conformance.py: int8/2x80-96-fp16/p16: {part} differs" for part in ("units", "rows")
    ]


def test_one_bit_of_an_input_says_nothing_of_a_format(
    expected: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = vectors.rows

    def flipped(heads: int, dim: int, number: vectors.Number, first: int) -> torch.Tensor:
        rows = made(heads, dim, number, first)
        if (heads, number, first) == (3, vectors.NUMBERS["bf16"], 0):
            rows.view(torch.int16)[5, 1, 7] ^= 1
        return rows

    monkeypatch.setattr(digests, "rows", flipped)
    capsys.readouterr()
    assert generate("--expect", expected) == Exit.FINDINGS
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("conformance.py: input 3x64-bf16 differs: its vectors are other ones")


def test_padding_counts(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    given = next(fixed_inputs())
    codec = Int8Codec(given.geometry(1))
    before = digest_units(codec, given, CPU, strided=False)
    monkeypatch.setattr(codec.keys.layout.__class__, "zero_padding", lambda self, blocks: None)
    after = digest_units(codec, given, CPU, strided=False)
    assert (before["units"] != after["units"], before["rows"] == after["rows"]) == (True, True)


@pytest.mark.parametrize("payload", [0x7FC1, 0x7F81, 0xFFC0 - 0x10000])
def test_payloads_of_nans_do_not_count(payload: int) -> None:
    number = vectors.NUMBERS["bf16"]
    one, other = (torch.tensor([bits, 1]).short().view(number.dtype) for bits in (0x7FC0, payload))
    settled = [digests._without_payloads(x, number) for x in (one, other)]
    assert digests.digest(settled[0]) == digests.digest(settled[1])
    assert digests.digest(one) != digests.digest(other)


def test_what_is_missing_or_new_is_named(few: None) -> None:
    whole = make_manifest(CPU, False, QUIET)
    part = Manifest({}, dict(whole.inputs), dict(whole.vectors))
    del part.vectors["k8v4/3x64-bf16/p64"], part.inputs["2x80-96-bf16"]
    assert digests.differences(whole, part)[0].startswith("input 2x80-96-bf16 was not made")
    assert digests.differences(whole, part)[1:] == [
        f"k8v4/3x64-bf16/p64: {part} was not made" for part in ("units", "rows")
    ]
    assert digests.differences(part, whole)[1:] == [
        f"k8v4/3x64-bf16/p64: {part} is not expected" for part in ("units", "rows")
    ]


# --- the command line --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "required: COMMAND; see conformance.py --help"),
        (["generate", "--device", "abacus"], "--device abacus cannot be used"),
        (["generate", "--expect", "nowhere.json"], "No such file or directory: nowhere.json"),
        (["generate", "--expect", __file__], "test_conformance.py is no manifest"),
        (["generate", "--json", "no/where.json"], "--json no/where.json: no such folder; mkdir"),
        (["generate", "--wrong"], "unrecognized arguments: --wrong; see conformance.py --help"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert conformance.main(arguments) == Exit.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("conformance.py: ") and said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"made_with": {}, "inputs": [], "vectors": {}}',
        '{"made_with": {}, "inputs": {}, "vectors": {"a": {"units": "", "rows": ""}}}',
        '{"made_with": {}, "inputs": {}, "vectors": {"a/b/c": 1}}',
        '{"made_with": {}, "inputs": {}, "vectors": {"a/b/c": {"units": ""}}}',
    ],
)
def test_what_is_no_manifest_is_refused_at_once(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file := tmp_path / "manifest.json").write_text(text)
    assert generate("--expect", file) == Exit.USAGE
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"{file} is no manifest" in err


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["generate", "--help"]):
        with pytest.raises(SystemExit) as ended:
            conformance.main(arguments)
        assert ended.value.code == 0
        assert "tools/conformance.py generate --device cuda --expect" in capsys.readouterr().out
