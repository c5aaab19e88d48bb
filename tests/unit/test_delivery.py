"""Files of results: whole or not there, with the user's permissions, never in a device's place."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from threading import Thread

import pytest

from serving.delivery import refuse_unwritable, write_bytes, write_file
from tests.unit.refusing import refusal


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_a_new_file_is_as_readable_as_any(tmp_path: Path) -> None:
    (plain := tmp_path / "plain").touch()
    write_file(file := tmp_path / "result", "text")
    assert (file.read_text(), mode(file)) == ("text\n", mode(plain))


def test_a_file_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    (file := tmp_path / "result").touch()
    file.chmod(0o640)
    write_file(file, "text")
    assert (file.read_text(), mode(file)) == ("text\n", 0o640)


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (link := tmp_path / "link").symlink_to("folder/result")
    write_file(link, "text")
    assert link.is_symlink()
    assert (tmp_path / "folder" / "result").read_text() == "text\n"


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    found: list[str] = []
    reader = Thread(target=lambda: found.append(pipe.read_text()), daemon=True)
    reader.start()
    refuse_unwritable("--json", pipe)
    write_file(pipe, "text")
    reader.join(10)
    assert (found, pipe.is_fifo(), list(tmp_path.iterdir())) == (["text\n"], True, [pipe])


def test_the_longest_name_that_a_folder_takes(tmp_path: Path) -> None:
    write_file(file := tmp_path / ("n" * 255), "text")
    assert list(tmp_path.iterdir()) == [file]


def test_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    (tmp_path / "result" / "in the way").mkdir(parents=True)
    with pytest.raises(OSError):
        write_bytes(tmp_path / "result", b"text")
    assert [file.name for file in tmp_path.iterdir()] == ["result"]


def test_a_folder_is_refused_before_the_work(tmp_path: Path) -> None:
    assert f"--json {tmp_path} is a folder" in str(
        refusal(lambda: refuse_unwritable("--json", tmp_path))
    )


def test_a_folder_without_the_right_to_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, right: path != tmp_path)
    file = tmp_path / "result"
    assert f"--page {file} cannot be written" in str(
        refusal(lambda: refuse_unwritable("--page", file))
    )
