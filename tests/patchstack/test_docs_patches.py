"""``docs/patches.md`` is true: every command in it runs, in order, and does what it says.

The commands run in a copy of this project whose releases are small. An editor that is a script
makes the changes that the guide leaves to the reader.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import apply
import export
import pytest
from clean_world import write_release
from stack_world import PYTHON, commit, git, message, write_project

from patchstack import rebase_report
from patchstack.context import ROOT, Context
from patchstack.footprint import EXISTING_BUDGET, NEW_BUDGET
from patchstack.history import read_history
from patchstack.lock import read_lock
from patchstack.mail import TRAILERS

pytestmark = pytest.mark.slow

GUIDE = ROOT / "docs" / "patches.md"
PIN, NEXT = "v0.5.23", "v0.5.24"
CACHE = "sglang/srt/mem_cache"
TRANSFER = f"{CACHE}/l2_transfer.py"
RELEASES = {
    PIN: {
        "sglang/__init__.py": b"",
        f"{CACHE}/pool_host/base.py": b"def pin():\n    return True\n",
        TRANSFER: b"def submit():\n    wait()\n    return 1\n",
    },
    NEXT: {
        "sglang/__init__.py": b"",
        f"{CACHE}/pool_host/base.py": b"import os\n\n\ndef pin():\n    return True\n",
        TRANSFER: b"def submit():\n    wait(1)\n    return 1\n",
    },
}
HOOK = f"{PYTHON}/srt/arg_groups/l2_codec_hook.py"
TOX = f"[testenv:integration-{PIN.replace('.', '_')}]\n"
SEAM = """\
[[hooks]]
patch = "hicache-on-cpu"
file = "srt/mem_cache/l2_transfer.py"
symbol = "submit"
use = "edited"
"""
HELLO = """
[[hooks]]
patch = "say-hello"
file = "srt/mem_cache/pool_host/base.py"
symbol = "pin"
use = "followed by a greeting"
"""
# What the reader does in an editor: the end of a file's path, and what stands there afterwards.
EDITS = {
    "pool_host/base.py": "def pin():\n    return True\n\n\nHELLO = 1\n",
    "l2_codec_hook.py": "def choices():\n    return ['none']\n",
    "l2_transfer.py": "def submit():\n    wait_on_any_device(1)\n    return 1\n",
    "tox.ini": TOX + f"\n[testenv:integration-{NEXT.replace('.', '_')}]\n",
    "revisions.toml": "",
    "seam.toml": "",
}
EDITOR = (
    """\
#!/usr/bin/env python3
import json, pathlib, sys
edits = json.loads(pathlib.Path(__file__).with_suffix(".json").read_text())
assert len(sys.argv) > 1, "nothing to edit"
for name in sys.argv[1:]:
    path = pathlib.Path(name).resolve()
    new = next(text for end, text in edits.items() if str(path).endswith(end))
    old = path.read_text()
    if name.endswith("revisions.toml"):
        new = old.replace('pin = "PIN"', 'pin = "NEXT"')
    if name.endswith("seam.toml"):  # the hook comes, and goes with its patch
        new = old.replace(HELLO, "") if HELLO in old else old + HELLO
    path.write_text(new)
    assert path.read_text() != old, f"{path} was edited already"
""".replace("PIN", PIN)
    .replace("NEXT", NEXT)
    .replace("HELLO", repr(HELLO))
)
SWAP = """\
#!/usr/bin/env python3
import pathlib, sys
path = pathlib.Path(sys.argv[1])
first, second, *rest = path.read_text().splitlines(keepends=True)
assert first.startswith("pick") and second.startswith("pick")
path.write_text("".join([second, first, *rest]))
"""


@dataclass(frozen=True)
class Block:
    """Commands of the guide.

    Parameters
    ----------
    heading
        The section that they are in.
    text
        The commands.
    """

    heading: str
    text: str

    @property
    def script(self) -> str:
        """The commands, with the exit code checked where the guide names one."""
        checked = r"code=0; \1 || code=$?; test $code -eq \2"
        return re.sub(r"(?m)^(.*\S) +# exits with (\d+)$", checked, self.text)


def blocks() -> list[Block]:
    """Return the fenced commands of the guide, in order."""
    found, heading = [], ""
    parts = re.split(r"(?ms)^(## [^\n]*|```sh\n.*?^```)$", GUIDE.read_text("utf-8"))
    for part in parts:
        if part.startswith("## "):
            heading = part.removeprefix("## ")
        elif part.startswith("```sh\n"):
            found.append(Block(heading, part.removeprefix("```sh\n").removesuffix("```")))
    return found


@dataclass(frozen=True)
class Reader:
    """Somebody who follows the guide.

    Parameters
    ----------
    root
        The project.
    environment
        The reader's environment.
    """

    root: Path
    environment: dict[str, str]

    def follow(self, block: Block) -> None:
        """Run the commands of a block, which must go as the guide says."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.script],
            cwd=self.root, env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{block.heading}:\n{block.script}\n{done.stdout}{done.stderr}"

    def slugs(self, revision: str = PIN) -> list[str]:
        """Return the series of a release."""
        return [patch.slug for patch in read_lock(self.root / "patches" / revision).patches]


def write_script(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def write_guide_project(folder: Path) -> Context:
    """Write a copy of this project, with two patches on a small release and another to come."""
    root = folder / "project"
    write_project(root)
    shutil.copytree(ROOT / "tools", root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("docs/patches.md", ".gitignore", ".gitattributes"):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / "tox.ini").write_text(TOX)
    (folder / "index").mkdir()
    tables = {name: write_release(folder, name, files) for name, files in RELEASES.items()}
    (root / "patches").mkdir()
    (root / "patches" / "seam.toml").write_text(SEAM)
    (root / "patches" / "revisions.toml").write_text(f'pin = "{PIN}"\n\n{tables[PIN]}')
    return Context(root, root / "patches", folder / "cache")


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """Return a reader of the guide, in a project under version control."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    context = write_guide_project(tmp_path)
    tree = tmp_path / "tree"
    assert apply.main(["--rev", "pin", "--target", str(tree)], context) == 0
    ours = RELEASES[PIN][TRANSFER].replace(b"wait()", b"wait_on_any_device()")
    commit(tree, message("hicache-on-cpu"), {f"python/{TRANSFER}": ours})
    commit(tree, message("l2-codec-flag"), {HOOK: b"def choices():\n    return []\n"})
    assert export.main(["--rev", "pin", "--tree", str(tree)], context) == 0
    git(context.root, "init", "--quiet")
    git(context.root, "add", "--all", "--force", ".")
    git(context.root, "commit", "--quiet", "--message=Start")
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\nname = Ann\nemail = ann@example.org\n")
    editor = write_script(tmp_path / "editor.py", EDITOR)
    (tmp_path / "editor.json").write_text(json.dumps(EDITS))
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    del kept["XDG_CONFIG_HOME"]
    environment = {
        **kept,
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:{kept['PATH']}",
        "HIQCACHE_CACHE": str(context.cache),
        "EDITOR": editor,
        "GIT_SEQUENCE_EDITOR": write_script(tmp_path / "swap.py", SWAP),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return Reader(context.root, environment)


def follow(reader: Reader, heading: str) -> None:
    """Follow the blocks of a section."""
    section = [block for block in blocks() if block.heading == heading]
    assert section, heading
    for block in section:
        reader.follow(block)


def test_every_command_of_the_guide(reader: Reader) -> None:
    """The sections in their order, each with its effect."""
    patches = reader.root / "patches"
    assert reader.slugs() == ["hicache-on-cpu", "l2-codec-flag"]
    follow(reader, "Add a patch")
    assert reader.slugs() == ["hicache-on-cpu", "l2-codec-flag", "say-hello"]
    assert git(reader.root, "status", "--porcelain") == "", "the guide commits all of it"

    old = read_lock(patches / PIN)
    follow(reader, "Edit a patch")
    (rewrite,) = read_history(patches / "history.toml")
    assert rewrite.reason == "refuse an empty name"
    assert [commit.slug for commit in rewrite.commits] == ["l2-codec-flag", "say-hello"]
    new = read_lock(patches / PIN)
    assert [patch.patch_id == old.patches[at].patch_id for at, patch in enumerate(new.patches)] == [
        True, False, True,
    ]  # fmt: skip

    assert git(reader.root, "status", "--porcelain") == ""

    follow(reader, "Reorder patches")
    assert reader.slugs() == ["l2-codec-flag", "hicache-on-cpu", "say-hello"]
    assert git(reader.root, "status", "--porcelain") == ""
    follow(reader, "Drop a patch")
    assert git(reader.root, "status", "--porcelain") == ""
    assert reader.slugs() == ["l2-codec-flag", "hicache-on-cpu"]
    assert read_history(patches / "history.toml")[-1].commits[-1].new is None

    before = sorted(patches.rglob("*"))
    follow(reader, "Add a release")
    assert sorted(patches.rglob("*")) == before
    assert "conflict" in (reader.root / "build" / "report.md").read_text()
    follow(reader, "Resolve a conflict")
    assert reader.slugs(NEXT) == reader.slugs(PIN)
    assert len(list((patches / "resolutions").iterdir())) == 1

    follow(reader, "Make the new release the pin")
    assert tomllib.loads((patches / "revisions.toml").read_text())["pin"] == NEXT
    assert f"| `{NEXT}` (pin) |" in (reader.root / "docs" / "patches.md").read_text()
    assert git(reader.root, "status", "--porcelain") == ""

    follow(reader, "Record the moves between the releases")
    assert f"| {NEXT} → {PIN} |" in (reader.root / "docs" / "moves.md").read_text()
    assert git(reader.root, "status", "--porcelain") == ""


def test_a_guide_that_is_wrong_is_noticed(reader: Reader) -> None:
    """The control of the test above."""
    for text in ("tools/apply.py --rev v0.0.1\n", "true  # exits with 3\n", "cd nowhere\ntrue\n"):
        with pytest.raises(AssertionError):
            reader.follow(Block("wrong", text))
    reader.follow(Block("right", "tools/map.py nothing  # exits with 2\ntrue\n"))


def test_every_section_is_followed() -> None:
    source = Path(__file__).read_text("utf-8")
    sections = {block.heading for block in blocks()}
    assert len(sections) >= 7
    for heading in sections:
        assert f'follow(reader, "{heading}")' in source, heading
    assert GUIDE.read_text("utf-8").count("```") == 2 * len(blocks()), "no other fences"


def test_the_guide_names_every_trailer_and_every_result() -> None:
    text = GUIDE.read_text("utf-8")
    for name in (*TRAILERS, "Shows"):
        assert f"| `{name}` |" in text
    words = ("UNCHANGED", "MOVED", "CHANGED", "RESOLVED", "DROPPED", "CONFLICT", "WAITING")
    for word in words:
        result = getattr(rebase_report, word)
        mark = rebase_report._MARKS.get(result)
        assert f"| {f'`{mark}` ' if mark else ''}| `{result}`" in text, result


def test_the_guide_names_the_budget() -> None:
    text = " ".join(GUIDE.read_text("utf-8").split())
    assert f"may be {EXISTING_BUDGET} at most, lines in new files {NEW_BUDGET}:" in text
