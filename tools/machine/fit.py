"""Whether the codec serves the model, whether SGLang's mover takes its rows, what fits in."""

from __future__ import annotations

from hiqcache.capacity import tokens_for_size
from hiqcache.codecs.layout import LONGEST_MOVER_ROW, MOVER_ALIGNMENT, UnitLayout
from machine.asked import Asked
from machine.finding import Finding, failed, passed, skipped


def check_codec(asked: Asked) -> Finding:
    """Whether the codec serves this geometry and saves something."""
    rank = asked.served.rank
    widths = "/".join(map(str, dict.fromkeys((rank.head_dim, rank.v_head_dim))))
    shape = f"{rank.layers} layers, {rank.kv_heads} KV heads x {widths} a rank"
    shape = f"{asked.served.name}: {shape}, pages of {rank.page_size}"
    try:
        codec = asked.made()
    except ValueError as error:
        return failed("codec", f"{shape}; {error}", "tools/capacity.py shows what would do")
    ratio = rank.bytes_per_token / codec.bytes_per_token
    saving = f"{codec.bytes_per_token:,} bytes a token ({rank.bytes_per_token:,} raw, {ratio:.3f}x)"
    return passed("codec", f"{shape}; {asked.codec} ({codec.format_tag}): {saving}")


def check_rows(asked: Asked) -> Finding:
    """Whether units are cut into rows that SGLang's register mover copies."""
    try:
        unit = asked.made().unit
    except ValueError:
        return skipped("rows", "the codec does not serve this model", "see codec")
    return judge_rows(unit)


def judge_rows(unit: UnitLayout) -> Finding:
    """Compare a unit's rows with what SGLang's register mover takes."""
    row = unit.mover_row_bytes
    rows = f"a page of a layer is 2 x {unit.rows_per_half} rows of {row:,} bytes"
    wrong = [
        f"a row is not whole groups of {MOVER_ALIGNMENT} bytes" if row % MOVER_ALIGNMENT else "",
        f"a row is above {LONGEST_MOVER_ROW:,} bytes" if row > LONGEST_MOVER_ROW else "",
        "the rows are not the unit" if 2 * unit.rows_per_half * row != unit.unit_bytes else "",
    ]
    if why := "; ".join(filter(None, wrong)):
        return failed("rows", f"{rows}: {why}", "the codec's block_bytes has to be put right")
    return passed("rows", f"{rows}, whole groups of {MOVER_ALIGNMENT}")


def check_capacity(asked: Asked) -> Finding:
    """What the budget holds: at least a page, by SGLang's rule."""
    try:
        held = asked.made().bytes_per_token
    except ValueError:
        return skipped("capacity", "the codec does not serve this model", "see codec")
    page = asked.served.page_size
    tokens = tokens_for_size(asked.size_gb, held, page)
    raw = tokens_for_size(asked.size_gb, asked.served.rank.bytes_per_token, page)
    if tokens <= page:
        told = f"--hicache-size {asked.size_gb} holds no page of {page:,} tokens"
        return failed("capacity", told, "give a larger --hicache-size, or a smaller --page-size")
    told = f"--hicache-size {asked.size_gb} holds {tokens:,} tokens, {raw:,} raw"
    return passed("capacity", told)
