"""What the formats hold and what they cost: capacity by budget, rate against distortion."""

from __future__ import annotations

from reporting.capacity_figure import SIZES_GB, capacities, draw_capacity
from reporting.content import Block, Plot, Section, Table, Text
from reporting.distortion import Distortion
from reporting.distortion_plot import draw_distortion, numbered


def capacity_section() -> Section:
    """Return the section of what host memory holds."""
    found = capacities()
    rows = tuple(
        (one.codec, f"{one.bytes_per_token_rank:,}", *(f"{each.tokens:,}" for each in one.filled))
        for one in found
    )
    header = ("codec", "bytes/token", *(f"tokens in {size} GB" for size in SIZES_GB))
    words = (
        "Computed, not measured: Qwen3-8B on one rank, pages of 64, by SGLang's own rule for the "
        "size of its host pool. tools/capacity.py says it of other models."
    )
    caption = "Capacity against budget: tokens that host memory holds with each codec."
    plot = Plot("capacity", caption, draw_capacity(found))
    return Section("Capacity", (Text(words), plot, Table(header, rows)))


def distortion_section(found: Distortion) -> Section:
    """Return the section of what each format costs in quality."""
    words = (
        f"KL against BF16 KV on a small model, the {found.scored:,} tokens after a prefix of "
        f"{found.prefix:,} that went through the format. docs/rate-distortion.md says how."
    )
    caption = (
        "Rate against distortion: bits for each value against KL, with 95 % intervals. Ours by "
        "name, others by the number that the table gives them."
    )
    plot = Plot("rate-distortion", caption, draw_distortion(found.formats))
    blocks: tuple[Block, ...] = (Text(words), plot, _table(found))
    return Section("Rate and distortion", blocks)


def _table(found: Distortion) -> Table:
    numbers = {one.name: str(number) for number, one in numbered(found.formats).items()}
    rows = tuple(
        (
            " ".join(filter(None, (numbers.get(one.name), one.name))),
            one.kind,
            f"{one.bits:.3f}",
            f"{one.kl.estimate:.2e} ({one.kl.low:.1e} to {one.kl.high:.1e})",
            f"{one.top1_percent.estimate:.2f}",
        )
        for one in found.formats
    )
    return Table(("format", "kind", "bits/value", "KL, nats/token", "same top-1, %"), rows)
