"""The page: its sections in order, and in the last one what has no section."""

from __future__ import annotations

from collections.abc import Iterator

from reporting.comparisons import experiment, in_short
from reporting.content import Block, Command, Document, Section, Text
from reporting.format_sections import capacity_section, distortion_section
from reporting.host_cache import host_cache
from reporting.inputs import Inputs
from reporting.provenance import commands, provenance
from reporting.reference import beside_ours
from reporting.restore_section import restores
from reporting.simulation import Simulation
from reporting.simulation_sections import simulated, validated
from reporting.unmeasured import DISTORTION, ON_A_GPU, RESTORE, SIMULATIONS, VALIDATION, Missing

TITLE = "HiQCache: results"


def make_document(inputs: Inputs) -> Document:
    """Return the page of what was read."""
    results = inputs.results
    ending = (host_cache(results), provenance(results), commands(results))
    return Document(TITLE, (*_sections(inputs), _unmeasured(inputs), *ending))


def _sections(inputs: Inputs) -> Iterator[Section]:
    results = inputs.results
    yield in_short(results)
    sweeps_last = sorted(results.experiments.items(), key=lambda found: len(found[1]) > 1)
    for at, (name, cases) in enumerate(sweeps_last, start=1):
        yield experiment(name, cases, at)
    yield beside_ours(results)
    yield from _beside_runs(inputs)


def _beside_runs(inputs: Inputs) -> Iterator[Section]:
    """Yield what is not made from runs alone."""
    sweeps, restore = _sweeps(inputs), inputs.restore
    for missing, sweep in sweeps.items():
        yield simulated(sweep, inputs.results) if sweep else _absent(missing)
    yield validated(inputs.validation) if inputs.validation else _absent(VALIDATION)
    yield restores(restore) if restore else _absent(RESTORE)
    yield capacity_section()
    yield distortion_section(inputs.distortion) if inputs.distortion else _absent(DISTORTION)


def _sweeps(inputs: Inputs) -> dict[Missing, Simulation | None]:
    given = {sweep.varied: sweep for sweep in inputs.simulations}
    return {missing: given.get(varied) for varied, missing in SIMULATIONS.items()}


def _absent(missing: Missing) -> Section:
    words = "Not measured. The command that measures it:"
    return Section(missing.what, (Text(words), *map(Command, missing.commands)))


def _unmeasured(inputs: Inputs) -> Section:
    """Return the section of what needs a GPU, and of what was not given."""
    given = {
        RESTORE: inputs.restore, DISTORTION: inputs.distortion, **_sweeps(inputs),
        VALIDATION: inputs.validation,
    }  # fmt: skip
    absent = [missing for missing, found in given.items() if found is None]
    blocks: list[Block] = [Text("Nothing here says anything about these.")]
    for missing in (*ON_A_GPU, *absent):
        blocks += [Text(f"{missing.what}:"), *map(Command, missing.commands)]
    return Section("Not measured", tuple(blocks))
