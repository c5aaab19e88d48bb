"""Releases that are asked for in vain: refused with the reason, which the one file holds."""

from __future__ import annotations

import pytest
from stack_world import NAME, World, snapshot

from patchstack.context import ROOT
from patchstack.revisions import load_revisions

OLD = "v9.9.8"
WHY = "its engine has no start"


def refuse(world: World, table: str) -> None:
    """Add a table to ``revisions.toml``, at its end."""
    with world.context.revisions_file.open("a") as file:
        file.write(f"\n[refused]\n{table}\n")


def test_a_refused_release_says_why(world: World) -> None:
    refuse(world, f'"{OLD}" = "{WHY}"')
    before = snapshot(world.root, world.context.cache)
    for outcome in (world.apply(rev=OLD), world.export(rev=OLD)):
        line = world.refused(outcome, 2, f"{OLD} is not supported: {WHY}")
        assert line.endswith(f"choose one of pin, {NAME}")
    assert snapshot(world.root, world.context.cache) == before


def test_the_others_go_on_as_before(world: World) -> None:
    """The control of the test above."""
    refuse(world, f'"{OLD}" = "{WHY}"')
    assert world.apply().code == 0
    world.refused(world.apply(rev="v9.9.7"), 2, "unknown revision 'v9.9.7'")


@pytest.mark.parametrize(
    "table",
    [
        f'"{NAME}" = "supported and refused"',
        f'"{OLD}" = ""',
        f'"{OLD}" = " starts with a space"',
        f'"{OLD}" = "two\\nlines"',
        f'"{OLD}" = 1',
        '"9.9.8" = "no revision is called so"',
    ],
)
def test_a_table_that_cannot_be(world: World, table: str) -> None:
    refuse(world, table)
    world.refused(world.apply(), 4, "revisions.toml cannot be used")


def test_a_refusal_that_is_no_table(world: World) -> None:
    world.edit_revisions(f'pin = "{NAME}"', f'pin = "{NAME}"\nrefused = ["{OLD}"]')
    world.refused(world.apply(), 4, "revisions.toml cannot be used")


def test_the_releases_before_the_first_supported_one_are_refused() -> None:
    revisions = load_revisions(ROOT / "patches" / "revisions.toml")
    refused = dict(revisions.refused)
    assert refused.keys() >= {"v0.5.17", "v0.5.18", "v0.5.19"}
    assert len(set(refused.values())) == len(refused), "each has a reason of its own"
