"""What users of such tools complain about, each tried on ours.

The rows are a survey of the issue trackers of tools that keep patches on top of somebody else's
project. `COVERED` says which test stands for each row; the tests that are not part of a larger
subject are here. After them come traps that the survey does not have.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from clean_world import ENGINE, NEW, OLD
from stack_world import NAME, PYTHON, World, commit, git, message, replace, series_files

from patchstack.context import ROOT
from patchstack.exporting import export_revision
from patchstack.lock import read_lock
from patchstack.mail import format_mail
from patchstack.report import Progress
from patchstack.repository import Repository

HERE = Path(__file__).parent
CHANGE: dict[str, bytes | None] = {ENGINE: b"def start():\n    return 3\n"}

# Row of the survey: what was reported, and the tests.
COVERED = {
    1: ("signing switched on breaks apply", "test_apply::test_the_committer_is_the_author"),
    2: ("line ends converted by a clone", "test_complaints::test_a_clone_that_converts_line_ends",
        "test_check_lint::test_line_ends_are_one_finding",
        "test_refusals::test_a_patch_with_other_line_ends"),
    3: ("CRLF files lost on export", "test_complaints::test_a_file_survives_a_round_trip"),
    4: ("no newline at the end", "test_complaints::test_a_patch_ends_in_one_line_feed"),
    5: ("patches change without a change", "test_complaints::test_more_objects_change_no_patch",
        "test_export::test_the_form_of_a_patch"),
    6: ("[brackets] of a subject lost", "test_export::test_a_message_that_mail_carries"),
    7: ("renames and context settings leak", "test_complaints::test_no_setting_reaches_a_patch"),
    8: ("diff.noprefix leaks", "test_complaints::test_no_setting_reaches_a_patch"),
    10: ("worktrees share a ref", "test_complaints::test_two_trees_share_nothing"),
    11: ("a fresh checkout no longer applies",
         "test_check::test_a_clean_project_and_its_releases"),
    12: ("a missing folder is a traceback", "test_refusals::test_a_missing_patch",
         "test_refusals::test_unknown_revision_names_the_choices",
         "test_check::test_a_mistake_in_a_series"),
    14: ("scissors cut a message", "test_export::test_a_message_that_mail_carries"),
    15: ("run elsewhere, the wrong repository is found",
         "test_apply::test_the_script_runs_from_anywhere",
         "test_apply::test_a_tree_inside_another_repository",
         "test_source_git::test_a_bare_mirror_by_its_path",
         "test_environment::test_started_from_any_folder"),
    16: ("an empty range is a traceback", "test_rebase::test_a_series_that_lists_nothing",
         "test_rebase::test_everything_is_upstream", "test_footprint::test_an_empty_series"),
    17: ("an empty patch kills export", "test_export::test_a_commit_that_changes_nothing",
         "test_complaints::test_a_file_survives_a_round_trip"),
    19: ("a subject that looks like a header", "test_export::test_a_message_that_mail_carries"),
    20: ("numbers pile up in names", "test_export::test_names_do_not_pile_up"),
    21: ("a failure is retried more leniently",
         "test_complaints::test_the_first_failure_is_final"),
    22: ("a dirty tree is taken in", "test_refusals::test_the_users_work_is_refused_by_name",
         "test_export::test_what_no_commit_holds"),
    24: ("no identity, no commit", "test_apply::test_same_ids_without_any_user_configuration",
         "test_environment::test_without_a_home"),
    25: ("applying twice fails or reverses", "test_apply::test_up_to_date_writes_nothing"),
    26: ("short blob ids break a three-way merge",
         "test_refusals::test_a_patch_with_short_blob_ids",
         "test_rebase_conflict::test_what_a_conflict_says",
         "test_source_git::test_content_is_fetched_once_and_only_that_of_the_tag"),
    27: ("another operation is in progress",
         "test_refusals::test_the_users_work_is_refused_by_name",
         "test_rebase_conflict::test_a_second_rebase"),
    28: ("git apply in a subfolder does nothing, and says so with 0",
         "test_apply::test_a_tree_inside_another_repository",
         "test_environment::test_a_target_in_another_repository"),
    29: ("a hunk in the wrong place",
         "test_apply::test_a_patch_in_one_of_equal_blocks_stays_there",
         "test_refusals::test_a_patch_that_fits_somewhere_else",
         "test_rebase::test_a_repeated_block"),
    30: ("GIT_DIR inherited from a hook", "conftest::hostile",
         "test_command::test_isolate_removes_all_that_git_calls_local",
         "test_environment::test_started_by_a_hook_of_another_repository"),
    31: ("global hooks run", "test_export::test_hostile_settings_of_the_tree_change_nothing",
         "conftest::user_home",
         "test_environment::test_hooks_that_forbid_everything_are_not_run"),
    32: ("dubious ownership", "test_complaints::test_a_tree_of_another_user",
         "test_environment::test_a_repository_of_somebody_else"),
    34: ("renames, links and modes", "test_complaints::test_a_file_survives_a_round_trip",
         "test_complaints::test_what_no_patch_should_do"),
    35: ("a killed run leaves half a file", "test_history::test_a_killed_export_is_recorded_once",
         "test_kill::test_apply_over_an_older_tree", "test_kill::test_export",
         "test_kill::test_apply_from_a_tag_and_record_it",
         "test_rebase_kill::test_killed_in_a_clean_move",
         "test_rebase_kill::test_killed_in_a_continued_move"),
    37: ("nothing says that the rest was skipped",
         "test_refusals::test_a_patch_that_does_not_apply"),
    38: ("two runs at once", "test_together::test_runs_at_once_make_one_tree",
         "test_concurrency::test_a_second_run_on_one_target_waits_whatever_its_cache",
         "test_concurrency::test_two_targets_and_one_cache"),
    39: ("upstream's tag moved", "test_source_git::test_a_moved_tag_whose_commit_can_be_had",
         "test_source_git::test_a_moved_tag_whose_commit_is_gone"),
    40: ("a failure does not fail the build",
         "test_complaints::test_a_failure_fails_a_script"),
    41: ("progress without file names; export in the middle of a rebase",
         "test_apply::test_standard_output_is_the_path_alone",
         "test_export::test_what_no_commit_holds"),
    43: ("tools differ in strictness", "test_complaints::test_one_strictness"),
}  # fmt: skip
ROWS = {*range(1, 9), 10, 11, 12, *range(14, 18), *range(19, 23), *range(24, 33), 34, 35,
        *range(37, 42), 43}  # fmt: skip


def applied(world: World, release: str) -> Path:
    """Apply a release and return its tree."""
    outcome = world.apply(rev=release)
    assert outcome.code == 0, outcome.err
    return Path(outcome.out.rstrip("\n"))


def functions(module: str) -> set[str]:
    """Return the names of a test module's functions."""
    source = ast.parse((HERE / f"{module}.py").read_text("utf-8"))
    return {node.name for node in source.body if isinstance(node, ast.FunctionDef)}


def test_every_row_has_a_test() -> None:
    assert COVERED.keys() == ROWS
    for row, (_, *tests) in COVERED.items():
        assert tests, row
        for test in tests:
            module, name = test.split("::")
            assert name in functions(module), f"row {row}: {test} does not exist"


# --- rows that are a subject of their own ------------------------------------------------------


def test_a_clone_that_converts_line_ends(clean: World, tmp_path: Path) -> None:
    """Row 2. The control: without our attributes the same clone breaks every patch."""
    shutil.copy(ROOT / ".gitattributes", clean.root / ".gitattributes")
    git(clean.root, "init", "--quiet")
    git(clean.root, "add", "--all")
    git(clean.root, "commit", "--quiet", "--message=With attributes")
    converting = ["-c", "core.autocrlf=true", "-c", "core.eol=crlf"]
    for name, same in (("with", True), ("without", False)):
        if not same:
            git(clean.root, "rm", "--quiet", ".gitattributes")
            git(clean.root, "commit", "--quiet", "--message=Without attributes")
        clone = tmp_path / name
        git(tmp_path, *converting, "clone", "--quiet", str(clean.root), str(clone))
        ours, theirs = clean.context.series_dir(NEW), clone / "patches" / NEW
        assert (series_files(theirs) == series_files(ours)) is same
        assert b"\r\n" in (clone / "tox.ini").read_bytes(), "the clone does convert"


ROUND_TRIPS = {
    "CRLF": {f"{PYTHON}/new.txt": b"one\r\ntwo\r\n"},
    "CRLF and LF": {f"{PYTHON}/crlf.txt": b"one\r\ntwo\nthree\r\n"},
    "lone CR": {f"{PYTHON}/new.txt": b"one\rtwo\r\r\n"},
    "no newline": {f"{PYTHON}/new.txt": b"one\ntwo"},
    "empty": {f"{PYTHON}/new.txt": b""},
    "emptied": {ENGINE: b""},
    "only newlines": {f"{PYTHON}/new.txt": b"\n\n\n"},
    "rename": {ENGINE: None, f"{PYTHON}/motor.py": b"def start():\n    return 2\n"},
    "rename and edit": {ENGINE: None, f"{PYTHON}/motor.py": b"def start():\n    return 5\n"},
    "another case": {ENGINE: None, f"{PYTHON}/srt/Engine.py": b"def start():\n    return 2\n"},
    "file to folder": {ENGINE: None, f"{PYTHON}/srt/engine/__init__.py": b"x = 1\n"},
    "odd name": {f'{PYTHON}/a\tb"c\\d\ne.py': b"1\n"},
    "long line": {ENGINE: b"x" * 300_000 + b"\n"},
    "NUL": {ENGINE: b"a\0b\n"},
}  # fmt: skip


@pytest.mark.parametrize("files", ROUND_TRIPS.values(), ids=ROUND_TRIPS.keys())
def test_a_file_survives_a_round_trip(world: World, files: dict[str, bytes | None]) -> None:
    """Rows 3, 17 and 34: what is committed, exported and applied again is the same tree."""
    tree = world.applied()
    if f"{PYTHON}/srt/engine/__init__.py" in files:
        (tree / ENGINE).unlink()
        files = {f"{PYTHON}/srt/engine.py/__init__.py": b"x = 1\n"}
    commit(tree, message("fourth"), files)
    wanted = git(tree, "rev-parse", "HEAD^{tree}")
    world.exported()
    again = world.applied("--target", str(world.root / "again"))
    assert git(again, "rev-parse", "HEAD^{tree}") == wanted
    for name, content in files.items():
        if content is not None:
            assert (again / name).read_bytes() == content


def test_a_patch_ends_in_one_line_feed(world: World) -> None:
    """Row 4."""
    commit(world.applied(), message("fourth"), {f"{PYTHON}/zzz.txt": b"no newline"})
    for name, data in world.exported().items():
        assert data.endswith(b"\n") and not data.endswith(b"\n\n\n"), name
    last = (world.series / "0004-fourth.patch").read_bytes()
    assert last.endswith(b"\n\\ No newline at end of file\n")


def test_more_objects_change_no_patch(world: World) -> None:
    """Row 5: with more objects in a repository, git abbreviates ids less."""
    before = series_files(world.series)
    tree = world.applied()
    length = len(git(tree, "rev-parse", "--short", "HEAD"))
    blobs = "".join(f"blob\ndata {len(str(n))}\n{n}\n" for n in range(70_000))
    stream = world.root / "stream"
    stream.write_text(blobs)
    with stream.open() as feed:
        subprocess.run(["git", "fast-import", "--quiet"], cwd=tree, stdin=feed, check=True,
                       env={"PATH": os.environ["PATH"]})  # fmt: skip
    assert len(git(tree, "rev-parse", "--short", "HEAD")) > length, "it would show"
    shutil.rmtree(world.series)
    assert world.exported() == before


SETTINGS = """\
am.keepcr=true am.threeWay=true apply.ignoreWhitespace=change apply.whitespace=fix
color.diff=always color.ui=always commit.cleanup=scissors commit.gpgSign=true
commit.template=/dev/zero commit.verbose=true core.abbrev=4 core.attributesFile={home}/attributes
core.autocrlf=true core.autocrlf=input core.bigFileThreshold=1 core.checkStat=minimal
core.commentChar=H core.commentChar=; core.compression=9 core.eol=crlf core.fileMode=false
core.fsmonitor=true core.hooksPath={home}/hooks core.ignoreCase=true core.precomposeUnicode=true
core.preloadIndex=true core.quotePath=false core.safecrlf=true core.symlinks=false
core.whitespace=cr-at-eol,tab-in-indent diff.algorithm=histogram diff.algorithm=minimal
diff.algorithm=patience diff.autoRefreshIndex=false diff.colorMoved=zebra diff.context=0
diff.context=9 diff.dirstat=files diff.dstPrefix=x/ diff.external=/bin/false
diff.ignoreSubmodules=all diff.indentHeuristic=false diff.interHunkContext=9
diff.mnemonicPrefix=true diff.noprefix=true diff.orderFile={home}/order diff.relative=true
diff.renameLimit=1 diff.renames=copies diff.renames=true diff.srcPrefix=x/ diff.statGraphWidth=9
diff.submodule=log diff.suppressBlankEmpty=true diff.wordRegex=. diff.wsErrorHighlight=all
format.attach=x format.cc=x@y format.coverFromDescription=subject format.coverLetter=true
format.encodeEmailHeaders=false format.filenameMaxLength=8 format.forceInBodyFrom=true
format.from=true format.headers=X-Odd:\\ yes format.mboxrd=true format.noprefix=true
format.notes=true format.numbered=true format.outputDirectory=/nowhere format.pretty=oneline
format.signOff=true format.signature=odd format.signatureFile={home}/order format.subjectPrefix=ODD
format.suffix=.odd format.thread=deep format.to=x@y format.useAutoBase=true gpg.format=ssh
i18n.commitEncoding=ISO-8859-1 i18n.logOutputEncoding=ISO-8859-1 log.abbrevCommit=true
log.date=relative log.decorate=full log.diffMerges=on log.excludeDecoration=x log.follow=true
log.initialDecorationSet=all log.mailmap=true log.showRoot=false log.showSignature=true
mailinfo.scissors=true mailmap.file={home}/order merge.conflictStyle=merge notes.displayRef=*
pager.format-patch=true pretty.oneline=x submodule.diff=x trailer.separators== trailer.where=start
user.useConfigOnly=true"""  # fmt: skip


@pytest.mark.usefixtures("isolated")
def test_no_setting_reaches_a_patch(
    world: World, user_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Rows 7 and 8: one setting at a time, of the user's and of the repository's own file."""
    tree = world.applied()
    commits = git(tree, "rev-list", "--reverse", "refs/hiqcache/base..HEAD").split()
    repository = Repository(tree / ".git", tree)
    good = [format_mail(repository, commit) for commit in commits]
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    own = (tree / ".git" / "config").read_text()
    settings = [pair.replace("\\ ", " ") for pair in SETTINGS.replace("\\ ", "\0").split()]
    assert len(settings) >= 90
    for setting in settings:
        key, value = setting.replace("\0", " ").replace("{home}", str(user_home)).split("=", 1)
        section, name = key.split(".", 1)
        text = f'[{section}]\n{name} = "{value}"\n'
        (home / ".gitconfig").write_text(text)
        (tree / ".git" / "config").write_text(own + text)
        assert [format_mail(repository, commit) for commit in commits] == good, setting


def test_two_trees_share_nothing(clean: World) -> None:
    """Row 10: work on one release moves nothing of another one."""
    trees = {release: applied(clean, release) for release in (OLD, NEW)}
    refs = {release: git(tree, "for-each-ref") for release, tree in trees.items()}
    commit(trees[OLD], message("third"), {ENGINE: b"def start():\n    return 9\n"})
    assert clean.export(rev=OLD).code == 0
    assert clean.apply(rev=OLD).code == 0
    assert git(trees[NEW], "for-each-ref") == refs[NEW]
    assert git(trees[OLD], "for-each-ref") != refs[OLD]
    assert "up to date" in clean.apply(rev=NEW).err


def test_the_first_failure_is_final(world: World) -> None:
    """Row 21: a patch that fits but for white space is refused, and not bent until it fits."""
    patch = world.series / "0001-middle-block.patch"
    text = patch.read_text().replace("\n   same\n", "\n \tsame\n").replace("\n begin", "\n  begin")
    assert text != patch.read_text()
    relocked(world.series, patch.name, text)
    world.refused(world.apply(), 4, patch.name, "does not apply")


def relocked(folder: Path, name: str, text: str) -> None:
    """Write a patch and its digest."""
    old = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / name).write_text(text)
    new = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    replace(folder / "lock.toml", old, new)


def executable(tree: Path) -> None:
    (tree / ENGINE).chmod(0o755)


def link(tree: Path) -> None:
    (tree / PYTHON / "srt" / "link.py").symlink_to("engine.py")


@pytest.mark.parametrize("change", [executable, link], ids=lambda c: c.__name__)
def test_what_no_patch_should_do(clean: World, change: object) -> None:
    """Row 34: it survives the round trip, and check says that it does not belong here."""
    tree = clean.applied()
    change(tree)  # type: ignore[operator]
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", message("third"))
    wanted = git(tree, "rev-parse", "HEAD^{tree}")
    assert clean.export().code == 0
    again = clean.applied("--target", str(clean.root / "build" / "again"))
    assert git(again, "rev-parse", "HEAD^{tree}") == wanted
    outcome = clean.check("--fast")
    assert f"patches/{NEW}/0003-third.patch:" in outcome.out
    assert ": mode: " in outcome.out


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_tree_of_another_user(world: World) -> None:
    """Row 32: git refuses such a repository to a user who names it by its folder."""
    tree = world.applied()
    commit(tree, message("fourth"), CHANGE)
    for path in (tree, *tree.rglob("*"), *world.context.cache.rglob("*")):
        os.chown(path, 12345, 12345, follow_symlinks=False)
    git(tree, "status", code=128)
    assert "0004-fourth.patch" in world.exported()
    assert world.apply().code == 0


def test_a_failure_fails_a_script(clean: World, tmp_path: Path) -> None:
    """Row 40: every tool, with something that is wrong for it."""
    for arguments in (
        ["apply.py", "--rev", "v1.2.3"],
        ["export.py", "--rev", "v1.2.3"],
        ["rebase.py", "--continue"],
        ["map.py", "v1.2.3"],
        ["check.py", "--no-such-option"],
        ["write_docs.py", "--no-such-option"],
    ):
        tool = str(ROOT / "tools" / arguments[0])
        script = f'set -e; "{sys.executable}" "{tool}" {" ".join(arguments[1:])}; touch reached'
        done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode != 0, arguments
        assert not (tmp_path / "reached").exists()


def test_one_strictness(clean: World) -> None:
    """Row 43: a hunk that names another line is found by apply and by check."""
    folder = clean.context.series_dir(NEW)
    name = "0001-edit-engine.patch"
    text = (folder / name).read_text()
    moved = text.replace("@@ -2,4 +2,4 @@", "@@ -3,4 +3,4 @@")
    assert moved != text
    (folder / name).write_text(moved)
    clean.refused(clean.apply(), 4, name, "sha256")
    assert f"{NEW}/{name}:1: lock: has sha256" in clean.check("--fast").out
    (folder / name).write_text(text)
    relocked(folder, name, moved)
    outcome = clean.check("-q")
    assert outcome.code == 1
    assert f"{NEW}/{name}:" in outcome.out


# --- traps that the survey does not have -------------------------------------------------------


def test_an_attribute_that_a_patch_brings(world: World) -> None:
    """A patch adds .gitattributes: it must not convert or filter what apply writes."""
    tree = world.applied()
    lines = b"* text=auto eol=crlf ident\n*.py filter=odd\n"
    commit(tree, message("fourth"), {f"{PYTHON}/.gitattributes": lines, ENGINE: b"# $Id$\n"})
    world.exported()
    again = world.applied("--target", str(world.root / "again"))
    assert (again / ENGINE).read_bytes() == b"# $Id$\n"
    assert git(again, "status", "--porcelain") == ""
    line_ends = (again / PYTHON / "blocks.py").read_bytes().replace(b"\n", b"\r\n")
    (again / PYTHON / "blocks.py").write_bytes(line_ends)
    outcome = world.apply("--target", str(again))
    world.refused(outcome, 3, "blocks.py (modified)")


def test_a_new_file_that_upstream_ignores(world: World) -> None:
    """`git add` passes it by without a word; export does not."""
    tree = world.applied()
    commit(tree, message("fourth"), CHANGE)
    (tree / PYTHON / "srt" / "events.log").write_text("needed by the change\n")
    git(tree, "add", "--all")
    assert git(tree, "status", "--porcelain") == ""
    world.refused(world.export(), 3, "events.log (untracked)", "commit them")


def test_a_replaced_commit(world: World) -> None:
    """Replacements of git's are the user's view; what is exported is what was committed."""
    tree = world.applied()
    good = commit(tree, message("fourth"), CHANGE)
    bad = commit(tree, message("fourth"), {ENGINE: b"evil = True\n"})
    git(tree, "reset", "--hard", "--quiet", good)
    git(tree, "replace", good, bad)
    git(tree, "update-ref", "-d", "ORIG_HEAD")
    exported = world.exported()["0004-fourth.patch"]
    assert b"return 3" in exported and b"evil" not in exported


def test_a_message_in_another_encoding(world: World) -> None:
    tree = world.applied()
    (tree / ENGINE).write_bytes(b"x = 1\n")
    git(tree, "add", "--all")
    text = message("fourth", body="Grüße").encode("latin-1")
    (tree / ".git" / "text").write_bytes(text)
    git(tree, "-c", "i18n.commitEncoding=ISO-8859-1", "commit", "--quiet", "-F", ".git/text")
    assert git(tree, "log", "-1", "--format=%e") == "ISO-8859-1"
    exported = world.exported()["0004-fourth.patch"]
    assert "Grüße".encode() in exported


def test_trailers_in_the_body_are_text(world: World) -> None:
    """Only the last paragraph counts, whatever a body quotes; check objects to the doubt."""
    text = message("fourth", body="HiQ-Patch: other\nWhy: quoted from elsewhere.\n\nMore.")
    commit(world.applied(), text, CHANGE)
    assert "0004-fourth.patch" in world.exported()
    assert read_lock(world.series).patches[3].slug == "fourth"
    found = world.check("--fast").out
    assert re.search(r"0004-fourth.patch:\d+: trailer: HiQ-Patch: is there more than", found)


def test_an_author_without_a_name(world: World) -> None:
    tree = world.applied()
    (tree / ENGINE).write_bytes(b"x = 1\n")
    git(tree, "add", "--all")
    for author in ("author  <> 1790000000 +0000", "author A <a@b> 5 -1130"):
        raw = (
            f"tree {git(tree, 'write-tree')}\nparent refs\n{author}\n"
            f"committer C <c@d> 1790000000 +0000\n\n{message('fourth')}"
        ).replace("parent refs", f"parent {read_lock(world.series).head.commit}")
        (tree / ".git" / "raw").write_text(raw)
        made = git(tree, "hash-object", "-t", "commit", "-w", "--literally", ".git/raw")
        git(tree, "reset", "--hard", "--quiet", made)
        world.refused(world.export(), 1, "(", "no author", "--reset-author")


def test_a_series_edited_on_windows(clean: World) -> None:
    """CRLF in `series` names the same patches; a byte order mark is a line of its own."""
    series = clean.context.series_dir(NEW) / "series"
    text = series.read_bytes()
    series.write_bytes(text.replace(b"\n", b"\r\n"))
    assert clean.apply().code == 0
    series.write_bytes(b"\xef\xbb\xbf" + text)
    clean.refused(clean.apply("--target", str(clean.root / "x")), 4, "series names")
    assert f"patches/{NEW}/series:1: series: " in clean.check("--fast").out


def test_two_patches_trade_places_by_hand(clean: World) -> None:
    """Renumbered files and an edited series are no reorder: the lock knows each by its place."""
    folder = clean.context.series_dir(NEW)
    (folder / "0001-edit-engine.patch").rename(folder / "x")
    (folder / "0002-add-extra.patch").rename(folder / "0001-add-extra.patch")
    (folder / "x").rename(folder / "0002-edit-engine.patch")
    (folder / "series").write_text("0001-add-extra.patch\n0002-edit-engine.patch\n")
    clean.refused(clean.apply(), 4, "0001-add-extra.patch is not in lock.toml")
    assert "0001-add-extra.patch:1: lock: is not in lock.toml" in clean.check("--fast").out


def test_an_export_of_the_wrong_release(clean: World) -> None:
    """The tree of one release is not written into the folder of another one."""
    tree = applied(clean, OLD)
    before = series_files(clean.context.series_dir(NEW))
    outcome = clean.export("--tree", str(tree), rev=NEW)
    clean.refused(outcome, 4, f"is not the base of {NEW}")
    assert series_files(clean.context.series_dir(NEW)) == before


@pytest.mark.usefixtures("isolated")
def test_a_patch_file_named_like_an_option(world: World) -> None:
    """Nothing of the user's is ever read as an option of git's."""
    tree = world.applied()
    commit(tree, message("fourth"), {f"{PYTHON}/--output=x": b"1\n", "-p1": b"2\n"})
    export_revision(world.context, NAME, tree, Progress(quiet=True))
    again = world.applied("--target", str(world.root / "again"))
    assert (again / "-p1").read_bytes() == b"2\n"
    assert not (world.root / "x").exists()
