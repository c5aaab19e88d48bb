"""Everything that a page is made from."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass

from reporting.distortion import Distortion, load_distortion
from reporting.restore import Restore, load_restore
from reporting.runs import Results, load_runs
from reporting.simulation import Simulation, Validation, load_simulations, load_validation


@dataclass(frozen=True)
class Inputs:
    """Runs, and what else was given."""

    results: Results
    restore: Restore | None = None
    distortion: Distortion | None = None
    simulations: tuple[Simulation, ...] = ()
    validation: Validation | None = None


def load_inputs(given: Namespace) -> Inputs:
    """Read what the command line names.

    Raises
    ------
    ToolError
        If one of the files is not what it should be.
    """
    return Inputs(
        Results(tuple(load_runs(given.results))),
        load_restore(given.restore) if given.restore else None,
        load_distortion(given.rate_distortion) if given.rate_distortion else None,
        load_simulations(given.simulation or ()),
        load_validation(given.validation) if given.validation else None,
    )
