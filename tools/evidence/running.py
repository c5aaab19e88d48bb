"""One run after another, each written down as soon as it ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evidence.bench import bench_command, run_bench
from evidence.cases import Case, Scale, Visit
from evidence.prompts import random_prompt
from evidence.provenance import provenance, same_code
from evidence.record import (
    INVALID,
    RAW,
    USED,
    Limits,
    Pool,
    Record,
    Request,
    Setup,
    Workload,
    most_held,
    read_record,
    without_folder,
)
from evidence.sizing import l2_of_bytes, l2_of_tokens
from evidence.watching import l2_watched
from patchstack.errors import Exit, ToolError
from serving.client import Client
from serving.l2 import L2, DevicePool
from serving.launch import Launch, Serving, logs_folder, sglang_launch
from serving.metrics import snapshot
from serving.model import model_geometry, model_name
from serving.pool_report import confirmed_pool
from serving.progress import Progress
from serving.server import ready
from serving.settling import settled_metrics

_LOG_LINES = 40
#: SGLang's counter of what requests tell of themselves.
_COUNTED = {
    "host_tokens": "sglang:load_back_tokens_total",
    "device_tokens": 'sglang:cached_tokens_total{cache_source="device"}',
}
_BACKED_UP = "sglang:hicache_backup_tokens_total"


@dataclass(frozen=True)
class Experiment:
    """A case at a scale, with a model.

    Parameters
    ----------
    name
        Of the case.
    case, scale
        What is served by which servers, and how large all of it is.
    model
        A Hugging Face folder.
    """

    name: str
    case: Case
    scale: Scale
    model: Path

    @property
    def device(self) -> DevicePool:
        """The device cache."""
        return DevicePool(self.scale.l1_tokens, self.scale.page_size)

    def l2(self, configuration: str) -> L2 | None:
        """Return the host cache of a configuration."""
        geometry = model_geometry(self.model, self.scale.page_size)
        policy = self.case.write_policy
        budget = self.scale.l2_tokens * geometry.bytes_per_token

        def of_bytes(name: str) -> L2 | None:
            return l2_of_bytes(name, budget, geometry, self.device, policy)

        if self.case.sizing == "bytes":
            return of_bytes(configuration)
        raw = of_bytes(RAW)
        assert raw is not None
        return l2_of_tokens(configuration, raw.tokens, self.device, policy)

    def setup(self, visit: Visit, workload: Workload) -> Setup:
        """Return what a run is started with."""
        l2 = self.l2(visit.configuration)
        return Setup(
            experiment=self.name,
            configuration=visit.configuration,
            sizing=self.case.sizing,
            l1_tokens=self.scale.l1_tokens,
            page_size=self.scale.page_size,
            l2_tokens=l2.tokens if l2 else 0,
            write_policy=self.case.write_policy,
            model=model_name(self.model),
            workload=workload,
        )

    def launch(self, visit: Visit, folder: Path) -> Launch:
        """Describe a configuration's server."""
        concurrency = max(workload.concurrency for workload in visit.workloads)
        scale = self.scale
        serving = Serving(self.model, scale.l1_tokens, scale.page_size, concurrency)
        return sglang_launch(visit.configuration, serving, self.l2(visit.configuration), folder)


def run_experiment(experiment: Experiment, folder: Path, progress: Progress) -> list[Path]:
    """Run it, and return the files of its runs.

    Parameters
    ----------
    experiment
        What to run.
    folder
        Where the runs go. What an earlier call wrote there is not run again.
    progress
        Told about every step.

    Raises
    ------
    ToolError
        If the folder has runs that are not of this experiment, before anything is run.
    """
    here, first = same_code(provenance()), 0
    places = []
    for visit in experiment.case.visits(experiment.scale):
        places.append((visit, first, _written(experiment, visit, first, folder, here)))
        first += len(visit.workloads)
    files: list[Path] = []
    for visit, first, found in places:
        if len(found) < len(visit.workloads):
            with logs_folder("experiment") as scratch:
                served = _serve(experiment, visit, first, scratch, progress)
                found = [record.write(folder) for record in served]
        files += found
    return files


def _written(
    experiment: Experiment, visit: Visit, first: int, folder: Path, here: tuple[Any, ...]
) -> list[Path]:
    """Return the usable runs of a visit that are there, at most one for each workload."""
    found = []
    for position, workload in enumerate(visit.workloads, first):
        for file in folder.glob(f"{position:03}-*.json"):
            if file.stem.endswith(INVALID):
                continue
            record = read_record(file)
            planned = (experiment.setup(visit, workload), visit.repeat, here)
            if (record.setup, record.repeat, same_code(record.provenance)) != planned:
                raise ToolError(
                    f"{file} is a run of something else", "name another --out", Exit.USAGE
                )
            found.append(file)
    return found


def _serve(
    experiment: Experiment, visit: Visit, first: int, scratch: Path, progress: Progress
) -> Iterator[Record]:
    """Serve a visit's workloads, each with empty caches."""
    launch = experiment.launch(visit, scratch)
    environment = provenance()
    with ready(launch, progress) as client:
        limits = confirmed_device(client, experiment.device)
        pool = _pool(launch, client)
        for number, workload in enumerate(visit.workloads):
            setup = experiment.setup(visit, workload)
            progress.stage(_told(setup, visit.repeat))
            started = datetime.now(UTC).isoformat(timespec="seconds")
            at = scratch / f"bench-{number}"
            at.mkdir()
            command = bench_command(launch.url, experiment.model, workload, at)
            warm_up(client, workload, experiment.device)
            before = snapshot(settled_metrics(client))
            with l2_watched(client, before.gauges.get(USED)) as l2_use:
                benched = run_bench(command, launch.environment, workload, at)
            after = snapshot(settled_metrics(client))
            counted = after.counted_since(before)
            held = most_held(l2_use, after.gauges)
            yield Record(
                setup=setup,
                repeat=visit.repeat,
                position=first + number,
                started=started,
                invalid=why_invalid(workload, pool, benched.requests, counted, held),
                provenance=environment,
                server_command=tuple(map(without_folder, launch.command)),
                bench_command=tuple(map(without_folder, command)),
                pool=pool,
                limits=limits,
                counters=counted,
                gauges=after.gauges,
                l2_use=tuple(l2_use),
                seconds=benched.seconds,
                requests=benched.requests,
                log_tail=tuple(launch.log.read_text(errors="replace").splitlines()[-_LOG_LINES:]),
            )


def _told(setup: Setup, repeat: int) -> str:
    workload = setup.workload
    return (
        f"{setup.experiment}: {setup.configuration}, repeat {repeat}, "
        f"{workload.groups} x {workload.prompts_per_group} requests, "
        f"prefixes of {workload.prefix_tokens}, {workload.concurrency} at a time"
    )


def _pool(launch: Launch, client: Client) -> Pool | None:
    report = confirmed_pool(launch, client.metrics())
    return Pool(report.slots, report.nbytes, report.size_per_token) if report else None


def confirmed_device(client: Client, planned: DevicePool) -> Limits:
    """Return what a server computes at most in one pass, if its device cache is the planned one.

    Raises
    ------
    ToolError
        If it is not: SGLang sets another page size for some attention backends.
    """
    info = client.server_info()
    found = DevicePool(info["max_total_num_tokens"], info["page_size"])
    if found != planned:
        raise ToolError(
            f"the server has an L1 of {found.tokens:,} tokens in pages of {found.page_size}, not "
            f"of {planned.tokens:,} in pages of {planned.page_size}",
            "use another device, whose attention backend serves such pages",
            Exit.FINDINGS,
        )
    return Limits(info["chunked_prefill_size"], info["max_prefill_tokens"])


def warm_up(client: Client, workload: Workload, device: DevicePool) -> None:
    """Let other prompts pay for what is made on first use, and forget them.

    They are computed in batches as large as the workload's, fill L1, and are asked for again, so
    that the first of them come back from L2 if there is one.
    """
    size, at_a_time = workload.prompt_tokens, workload.concurrency
    count = max(at_a_time, device.tokens // size + 1)
    prompts = [random_prompt(number, size) for number in range(min(count, 999))]

    def ask(prompt: list[int]) -> None:
        client.complete(prompt, new_tokens=workload.output_tokens)

    with ThreadPoolExecutor(at_a_time) as pool:
        for asked in (prompts, prompts[:at_a_time]):
            list(pool.map(ask, asked))
    client.flush()


def why_invalid(
    workload: Workload,
    pool: Pool | None,
    requests: Sequence[Request],
    counted: Mapping[str, float],
    held: float,
) -> str | None:
    """Return why a run cannot be used, or None.

    Parameters
    ----------
    workload
        What was served.
    pool
        The server's host cache, or None.
    requests
        What came of it.
    counted
        The server's own figures.
    held
        The most tokens that its L2 held at any reading.
    """
    lengths = {(request.prompt_tokens, request.output_tokens) for request in requests}
    if lengths != {(workload.prompt_tokens, workload.output_tokens)}:
        return f"prompts and answers of other lengths than set: {sorted(lengths)}"
    for name, counter in _COUNTED.items():
        told = sum(getattr(request, name) for request in requests)
        counts = counted.get(counter, 0)
        if told != counts:
            return f"requests had {told} {name.replace('_', ' ')} and SGLang counted {counts:.0f}"
    if pool and held > pool.slots:
        return f"an L2 of {pool.slots} tokens held {held:.0f}"
    if pool and not counted.get(_BACKED_UP):
        return "nothing was written to L2"
    return None
