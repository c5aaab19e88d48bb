"""``tools/check.py``: nothing is found in a clean project, and each mistake is found by name."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from clean_world import ENGINE, NEW, OLD
from stack_world import World, commit, git, message, replace, snapshot

from patchstack.context import ROOT, Context
from patchstack.lock import read_lock

FIRST, SECOND = "0001-edit-engine.patch", "0002-add-extra.patch"


def findings(world: World, *arguments: str) -> list[str]:
    """Run a fast check that must find something, and return the findings."""
    before = snapshot(world.root)
    outcome = world.check("--fast", *arguments)
    assert outcome.code == 1, outcome
    assert snapshot(world.root) == before, "a check changes nothing"
    lines = outcome.out.splitlines()
    found = [line for line in lines[:-1] if not line.startswith("v9")]
    assert lines[-1] in (f"{len(found)} findings", "1 finding")
    return found


def test_a_recorded_file_that_is_damaged(clean: World) -> None:
    clean.context.resolutions.mkdir()
    (clean.context.resolutions / "some.patch").write_text("damaged\n")
    outcome = clean.check("--fast")
    assert outcome.code == 1
    line = "patches/resolutions:1: resolutions: patches/resolutions/some.patch cannot be used"
    assert outcome.out.startswith(line)


def test_a_clean_project(clean: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of every test below. It needs neither the cache nor the index."""
    shutil.rmtree(clean.context.cache)
    monkeypatch.setenv("PIP_FIND_LINKS", str(clean.root / "nowhere"))
    outcome = clean.check("--fast")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == (
        "v9.9.8: 5 of 60 lines in SGLang's files, 5 of 250 in new files\n"
        "v9.9.9: 5 of 60 lines in SGLang's files, 5 of 250 in new files"
        " (+1 -1 against v9.9.8)\n"
        "0 findings\n"
    )
    assert not clean.context.cache.exists()


def test_a_clean_project_and_its_releases(clean: World) -> None:
    """The control of the tests of the whole check. The user's cache is not trusted with it."""
    shutil.rmtree(clean.context.cache)
    outcome = clean.check()
    assert outcome.code == 0, outcome
    assert outcome.err.count("fetching sglang-") == 2
    assert not clean.context.cache.exists()
    assert clean.check("-q").err == ""


def test_json(clean: World) -> None:
    replace(clean.context.series_dir(OLD) / FIRST, "Why: a test", "Why:")
    outcome = clean.check("--fast", "--json")
    assert outcome.code == 1
    result = json.loads(outcome.out)
    assert set(result) == {"findings", "budgets", "footprints", "changes"}
    assert result["budgets"] == {"existing": 60, "new": 250}
    assert result["footprints"][1] == {"revision": NEW, "existing": 5, "new": 5}
    assert result["changes"] == [{"before": OLD, "after": NEW, "added": 1, "removed": 1}]
    assert [finding["rule"] for finding in result["findings"]] == ["lock", "trailer"]
    assert result["findings"][1] == {
        "path": f"patches/{OLD}/{FIRST}",
        "line": 9,
        "rule": "trailer",
        "what": "Why: is empty",
    }


def test_this_project(clean: World) -> None:
    here = dataclasses.replace(clean, context=Context(ROOT, ROOT / "patches", clean.context.cache))
    outcome = here.check("--fast")
    assert outcome.code == 0, outcome.out


@pytest.mark.network
@pytest.mark.slow
def test_this_project_and_its_releases(
    clean: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every supported release is fetched, applied and exported, and the documents fit it."""
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    here = dataclasses.replace(clean, context=Context(ROOT, ROOT / "patches", tmp_path / "unused"))
    outcome = here.check("-q")
    assert outcome.code == 0, outcome.out
    assert not (tmp_path / "unused").exists()


# --- series and lock ---------------------------------------------------------------------------


def listed_twice(folder: Path) -> str:
    replace(folder / "series", f"{SECOND}\n", f"{SECOND}\n{SECOND}\n")
    return f"series:3: series: {SECOND} is listed in line 2 already"


def not_listed(folder: Path) -> str:
    (folder / "0003-extra.patch").write_bytes((folder / SECOND).read_bytes())
    return "0003-extra.patch:1: series: is not in series"


def missing(folder: Path) -> str:
    (folder / SECOND).unlink()
    return f"series:2: series: {SECOND} does not exist"


def no_series(folder: Path) -> str:
    (folder / "series").unlink()
    return "series:1: series: is missing, or names no patch"


def no_folder(folder: Path) -> str:
    shutil.rmtree(folder)
    return "series:1: series: has no patches (tools/rebase.py"


def odd_name(folder: Path) -> str:
    replace(folder / "series", SECOND, f"../{SECOND}")
    return f"series:2: series: '../{SECOND}' is not NNNN-slug.patch"


def out_of_order(folder: Path) -> str:
    replace(folder / "series", f"{FIRST}\n{SECOND}\n", f"{SECOND}\n{FIRST}\n")
    return f"series:1: series: {SECOND} is patch number 1"


def same_slug(folder: Path) -> str:
    (folder / "0003-add-extra.patch").write_bytes((folder / SECOND).read_bytes())
    replace(folder / "series", f"{SECOND}\n", f"{SECOND}\n0003-add-extra.patch\n")
    return f"series:2: series: the slug of {SECOND} is used twice"


def rejected_hunk(folder: Path) -> str:
    (folder / "engine.py.rej").write_text("left by patch(1)\n")
    return "engine.py.rej:1: series: does not belong here"


def edited_patch(folder: Path) -> str:
    replace(folder / FIRST, "Why: a test", "Why: another test")
    return f"{FIRST}:1: lock: has sha256"


def no_lock(folder: Path) -> str:
    (folder / "lock.toml").unlink()
    return f"lock.toml:1: lock: patches/{folder.name}/lock.toml is missing"


def odd_base(folder: Path) -> str:
    base = read_lock(folder).base.commit
    replace(folder / "lock.toml", base, "1" * 40)
    return "lock.toml:1: lock: gives base commit"


def odd_head(folder: Path) -> str:
    lock = folder / "lock.toml"
    before, after = lock.read_text().split("[head]")
    lock.write_text(
        f"{before}[head]{re.sub('commit = .*', f'commit = {chr(34)}{1:040}{chr(34)}', after)}"
    )
    return "lock.toml:1: lock: its head is 0"


def lock_without_a_patch(folder: Path) -> str:
    replace(folder / "lock.toml", f'file = "{SECOND}"', 'file = "0002-other.patch"')
    return f"{SECOND}:1: lock: is not in lock.toml"


MISTAKES = [
    listed_twice, not_listed, missing, no_series, no_folder, odd_name, out_of_order, same_slug,
    rejected_hunk, edited_patch, no_lock, odd_base, odd_head, lock_without_a_patch,
]  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_in_a_series(clean: World, mistake: Callable[[Path], str]) -> None:
    what = mistake(clean.context.series_dir(OLD))
    found = findings(clean)
    assert any(line.startswith(f"patches/{OLD}/{what}") for line in found), found
    assert not any(line.startswith(f"patches/{NEW}/") for line in found), found


def test_a_series_of_no_release(clean: World) -> None:
    shutil.copytree(clean.context.series_dir(OLD), clean.context.series_dir("v9.9.6"))
    found = findings(clean)
    assert found == ["patches/v9.9.6/series:1: series: v9.9.6 is not in revisions.toml"]


def test_a_note_beside_the_patches_is_welcome(clean: World) -> None:
    """The control of the rejected hunk above."""
    (clean.context.series_dir(OLD) / "NOTES.md").write_text("kept\n")
    replace(clean.context.series_dir(OLD) / "series", FIRST, f"# first\n{FIRST} # why\n")
    assert clean.check("--fast").code == 0


def test_all_mistakes_are_found_at_once(clean: World) -> None:
    old, new = clean.context.series_dir(OLD), clean.context.series_dir(NEW)
    places = [edited_patch(old), rejected_hunk(old), odd_base(new), listed_twice(new)]
    (clean.root / "tox.ini").write_text("[tox]\n")
    found = findings(clean)
    for place, folder in zip(places, (OLD, OLD, NEW, NEW), strict=True):
        assert any(line.startswith(f"patches/{folder}/{place}") for line in found)
    assert sum(line.startswith("tox.ini") for line in found) == 2
    assert found == sorted(found, key=lambda line: line.split(":")[0]), "by place"


def test_a_damaged_revisions_file(clean: World) -> None:
    """Nothing can be checked without it."""
    clean.context.revisions_file.write_text("not toml")
    clean.refused(clean.check("--fast"), 4, "revisions.toml")


# --- the history -------------------------------------------------------------------------------


def rewrite(world: World, content: bytes) -> None:
    """Change the last patch, so that the history grows, and write the documents again."""
    tree = world.applied()
    git(tree, "reset", "--hard", "--quiet", "HEAD~1")
    commit(tree, message("add-extra"), {ENGINE: content})
    world.exported()
    assert world.write_docs("--offline").code == 0


def keep(world: World) -> str:
    """Commit the project to a repository of its own and return the commit."""
    if not (world.root / ".git").exists():
        git(world.root, "init", "--quiet")
    git(world.root, "add", "--all")
    git(world.root, "commit", "--quiet", "--message=State")
    return git(world.root, "rev-parse", "HEAD")


def test_a_history_that_grows(clean: World) -> None:
    """The control of the tests below."""
    keep(clean)
    for content in (b"one = 1\n", b"two = 2\n"):
        rewrite(clean, content)
        assert clean.check("--fast").code == 0
        keep(clean)
        assert clean.check("--fast").code == 0


def test_a_history_that_was_edited(clean: World) -> None:
    rewrite(clean, b"one = 1\n")
    first = keep(clean)
    rewrite(clean, b"two = 2\n")
    text = clean.context.history_file.read_text()
    clean.context.history_file.write_text(text.replace("changed", "altered", 1))
    keep(clean)
    (line,) = findings(clean)
    assert line.startswith(f"patches/history.toml:7: history: is not what {first[:12]} had")


def test_a_history_that_lost_its_end(clean: World) -> None:
    rewrite(clean, b"one = 1\n")
    keep(clean)
    clean.context.history_file.unlink()
    assert any("history.toml:1: history: is not what" in line for line in findings(clean))


def test_commits_without_a_trace(clean: World) -> None:
    """A series was written by something other than export, or its history was thrown away."""
    old = read_lock(clean.context.series_dir(NEW)).patches
    commit = keep(clean)
    rewrite(clean, b"one = 1\n")
    history = clean.context.history_file.read_bytes()
    clean.context.history_file.unlink()
    keep(clean)
    (line,) = findings(clean)
    assert line == (
        f"patches/history.toml:1: history: {old[1].commit}, in the lock of {NEW} at"
        f" {commit[:12]}, has no trace here"
    )
    clean.context.history_file.write_bytes(history)
    assert clean.check("--fast").code == 0


def test_a_history_that_leads_nowhere(clean: World) -> None:
    rewrite(clean, b"one = 1\n")
    new = read_lock(clean.context.series_dir(NEW)).patches[1].commit
    replace(clean.context.history_file, new, "1" * 40)
    (line,) = findings(clean)
    assert re.match(r"patches/history.toml:11: history: \w{40} leads to 1{40}, which no s", line)


def test_a_history_that_cannot_be_read(clean: World) -> None:
    clean.context.history_file.write_text("[[rewrites]]\n")
    assert any("history.toml:1: history: history.toml cannot be read" in f for f in findings(clean))


# --- tox ---------------------------------------------------------------------------------------


def test_a_release_without_an_environment(clean: World) -> None:
    replace(clean.root / "tox.ini", "{9_9_8,9_9_9}", "9_9_8")
    assert findings(clean) == [
        f"tox.ini:1: tox: there is no environment integration-v9_9_9 for {NEW}"
    ]


def test_an_environment_without_a_release(clean: World) -> None:
    replace(clean.root / "tox.ini", "{9_9_8,9_9_9}", "{9_9_8,9_9_9,9_9_7}")
    assert findings(clean) == [
        "tox.ini:7: tox: integration-v9_9_7 is for a release that revisions.toml does not support"
    ]


def test_a_tox_file_that_cannot_be_read(clean: World) -> None:
    (clean.root / "tox.ini").write_text("no section\n")
    assert findings(clean)[0].startswith("tox.ini:1: tox: cannot be read")


# --- the documents -----------------------------------------------------------------------------


def test_a_table_that_is_out_of_date(clean: World) -> None:
    """A release is added to, or taken from, the supported ones."""
    replace(clean.context.revisions_file, "its engine cannot start", "it never ran")
    (line,) = findings(clean)
    assert line == (
        "docs/patches.md:3: docs: the table of releases is out of date; run tools/write_docs.py"
    )
    assert clean.write_docs("--offline").out == f"{clean.root}/docs/patches.md\n"
    assert "it never ran" in (clean.root / "docs/patches.md").read_text()
    assert (clean.root / "docs/patches.md").read_text().endswith("\n\nThe end.\n")
    assert clean.check("--fast").code == 0
    assert clean.write_docs("--offline").out == "", "nothing changes twice"


def test_a_guide_without_its_markers(clean: World) -> None:
    (clean.root / "docs/patches.md").write_text("# Patches\n")
    assert findings(clean)[0].startswith("docs/patches.md:1: docs: docs/patches.md does not have")
    clean.refused(clean.write_docs("--offline"), 1, "docs/patches.md", "put them where")


def test_a_command_for_a_release_that_is_not_supported(clean: World) -> None:
    (clean.root / "README.md").write_text("hiqcache\n\n    tools/apply.py --rev v9.9.7\n")
    assert findings(clean) == ["README.md:3: docs: --rev v9.9.7 is not a supported release"]
    (clean.root / "README.md").write_text("tools/apply.py --rev v9.9.8. Not v9.9.7.\n")
    assert clean.check("--fast").code == 0


# --- with the releases -------------------------------------------------------------------------


def whole(world: World) -> list[str]:
    outcome = world.check("-q")
    assert outcome.code == 1, outcome
    return [line for line in outcome.out.splitlines()[:-1] if not line.startswith("v9")]


def test_a_lock_that_no_apply_gives(clean: World) -> None:
    """Its digests fit, so only applying shows it."""
    lock = clean.context.series_dir(OLD) / "lock.toml"
    tree = read_lock(lock.parent).patches[0].tree
    replace(lock, tree, "1" * 40)
    assert clean.check("--fast").code == 0
    (line,) = whole(clean)
    assert line.startswith(
        f"patches/{OLD}/lock.toml:1: apply: patches/{OLD}/{FIRST} gives patch tr"
    )


def test_a_patch_in_another_form(clean: World) -> None:
    """It gives the same commit, so that apply is content with it."""
    folder = clean.context.series_dir(NEW)
    old = read_lock(folder).patches[0].sha256
    text = (folder / FIRST).read_text()
    (folder / FIRST).write_text(re.sub(r"(?m)^@@ .* @@", r"\g<0> edited", text))
    replace(folder / "lock.toml", old, hashlib.sha256((folder / FIRST).read_bytes()).hexdigest())
    assert clean.check("--fast").code == 0
    assert clean.apply("--target", str(clean.root / "build" / "tree")).code == 0
    (line,) = whole(clean)
    assert re.match(rf"patches/{NEW}/{FIRST}:\d+: form: is not what tools/export.py writes", line)
    number = int(line.split(":")[1])
    assert "edited" in (folder / FIRST).read_text().splitlines()[number - 1]


def test_a_blank_line_at_the_end_of_a_file(clean: World) -> None:
    """Only the whole file shows that it is the end."""
    rewrite(clean, b"one = 1\n\n")
    assert clean.check("--fast").code == 0
    (line,) = whole(clean)
    assert line == (f"patches/{NEW}/{SECOND}:1: whitespace: {ENGINE}:2: new blank line at EOF.")


def test_a_release_that_cannot_be_had(clean: World) -> None:
    """The other release is checked all the same."""
    (clean.index / "sglang-9.9.8-py3-none-any.whl").unlink()
    replace(clean.context.series_dir(NEW) / "lock.toml", "0002", "0003")
    found = whole(clean)
    assert any(f"patches/{OLD}/lock.toml:1: apply: pip cannot fetch" in line for line in found)
    assert any(f"patches/{NEW}/lock.toml:1: apply: " in line for line in found)


def test_a_page_that_does_not_fit_the_sources(clean: World) -> None:
    replace(clean.root / "docs/upstream.md", "| 5 | 2 |", "| 5 | 3 |")
    assert clean.check("--fast").code == 0, "it takes the sources to know"
    (line,) = whole(clean)
    assert (
        line
        == "docs/upstream.md:13: docs: does not fit the pinned sources; run tools/write_docs.py"
    )
    assert clean.write_docs("--offline").code == 0
    assert clean.check("-q").code == 0


def test_a_seam_that_cannot_be_read(clean: World) -> None:
    (clean.context.patches / "seam.toml").write_text("[[hooks]]\n")
    (line,) = whole(clean)
    assert line.startswith("patches/seam.toml:1: seam: ")
    clean.refused(clean.write_docs("--offline"), 4, "seam.toml", "git checkout")


def test_a_file_that_is_changed_without_a_hook(clean: World) -> None:
    text = (clean.context.patches / "seam.toml").read_text()
    (clean.context.patches / "seam.toml").write_text(text.replace('"add-extra"', '"other"'))
    assert findings(clean) == [
        f"patches/seam.toml:1: seam: add-extra changes {ENGINE}, and no hook of it is in that file",
        "patches/seam.toml:1: seam: no series has other, which has hooks",
    ]


def test_the_page_about_upstream(clean: World) -> None:
    page = (clean.root / "docs/upstream.md").read_text()
    assert "| place | use | v9.9.9 | v9.9.8 |" in page
    assert "| `srt/engine.py` `start`, line `return 1…` | edited | 5 | 2 |" in page
    assert "| `srt/engine.py` `start` | called | 4 | 1 |" in page
    assert "| `srt/no_such_file.py` `start` | not in this release | - | - |" in page
    assert "- v9.9.8 to v9.9.9: `()`" in page
    assert "- v9.9.8 to v9.9.9: not there" in page
