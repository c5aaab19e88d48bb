"""What the control groups leave a process of the host's memory.

SGLang bounds its host pools by every group from the process's own up to the root: a limit less what
is used, where the page cache counts as free. (It counts it as used where a group below has
protected memory, which is not looked at here.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class Accounts:
    """The names of a version's files.

    Parameters
    ----------
    limits : tuple of str
        Bytes, or ``max``.
    usage : str
        Bytes.
    caches : tuple of str
        Lines of ``memory.stat`` that count the page cache.
    """

    limits: tuple[str, ...]
    usage: str
    caches: tuple[str, ...]


_ACCOUNTS = {
    "cgroup": Accounts(
        ("memory.limit_in_bytes",),
        "memory.usage_in_bytes",
        ("total_active_file", "total_inactive_file"),
    ),
    "cgroup2": Accounts(
        ("memory.max", "memory.high"), "memory.current", ("active_file", "inactive_file")
    ),
}


def headroom(proc: Path = Path("/proc")) -> int | None:
    """Bytes that the groups of this process leave it, or None where nothing limits them.

    Parameters
    ----------
    proc : Path
        Where the process file system is.
    """
    lefts = [_left(folder, _ACCOUNTS[version]) for version, folder in _groups(proc)]
    return min((left for left in lefts if left is not None), default=None)


def _groups(proc: Path) -> Iterator[tuple[str, Path]]:
    """Yield the version and the folder of each group, from the process's own upwards."""
    try:
        memberships = dict(_memberships((proc / "self/cgroup").read_text()))
        mounts = (proc / "self/mountinfo").read_text().splitlines()
    except OSError:
        return
    for mount in mounts:
        before, _, after = mount.partition(" - ")
        version, _, options = after.split()[:3]
        if version not in memberships or (version == "cgroup" and "memory" not in options):
            continue
        root, mounted = (PurePosixPath(field) for field in before.split()[3:5])
        member = memberships[version]
        inside = member.relative_to(root) if member.is_relative_to(root) else PurePosixPath()
        while True:
            yield version, Path(mounted / inside)
            if inside == inside.parent:
                break
            inside = inside.parent


def _memberships(text: str) -> Iterator[tuple[str, PurePosixPath]]:
    """Yield the version and the path of the groups that account memory."""
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield "cgroup2", PurePosixPath(path)
        elif "memory" in controllers.split(","):
            yield "cgroup", PurePosixPath(path)


def _left(folder: Path, accounts: Accounts) -> int | None:
    """Bytes that one group leaves."""
    limits = [
        int(text)
        for name in accounts.limits
        if (text := _text(folder / name)) is not None and text != "max"
    ]
    if not limits:
        return None
    stat = dict(line.split() for line in (_text(folder / "memory.stat") or "").splitlines())
    used = int(_text(folder / accounts.usage) or 0)
    return max(0, min(limits) - max(0, used - sum(int(stat.get(n, 0)) for n in accounts.caches)))


def _text(file: Path) -> str | None:
    try:
        return file.read_text().strip()
    except OSError:
        return None
