r"""What the INT8 codec does to values, proven element by element.

With a head's step ``s = bf16(max|x| / 127)``, the stored ``q = round(x / s)`` and the restored
``y = bf16(q * s)``, an element's error has two sources, each with its own bound:

.. math::

    |q s - x| &\le s / 2                &&\text{rounding to the nearest step} \\
    |y - q s| &\le 2^{-8} |y|           &&\text{rounding the product to BF16} \\
    |y - x|   &\le s / 2 + 2^{-8} |y|   &&\text{their sum}

The second is theorem 2.3 of Higham, *Accuracy and Stability of Numerical Algorithms* (2002), with
BF16's unit roundoff ``2**-8``. By the same theorem ``max|x| / 127 <= (1 + 2**-8) * s``, so no
quotient exceeds 127.497, none is clamped, and the first is round to nearest. A looser bound adds
``2**-8 * s`` for the rounding of the step; that is slack, for ``q`` is a quotient by the step as
it is stored. Of all BF16 values the worst has ``|y - x| = 128/137 * s``, or 0.934 steps.

Every quantity above is a float64 without rounding (``x``, ``s`` and ``y`` have 8 significant bits,
``q * s`` has 15, and a ``q`` other than zero has ``x`` within a factor of two of ``q * s``), so
the comparisons are exact: no tolerance is added anywhere. The reference shares no code with the
codec. It runs in float64 on the CPU, whichever device the codec ran on, and rounds to BF16 by
integer arithmetic on the bits.

Heads at the edges that :mod:`hiqcache.codecs.int8` documents are held to their own rule there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from hiqcache.codecs.int8 import Int8Block

#: Bound of the first term, in steps.
QUANTISATION_BOUND = 0.5
#: Unit roundoff of BF16, whose significand has 8 bits: bound of the second term.
BF16_ROUNDOFF = 2.0**-8

_LEVELS = 127
_SMALLEST_STEP = 2.0**-126
_LARGEST_STEP = 2.0**121


@dataclass(frozen=True)
class ErrorMetrics:
    """How far restored values are from the original ones.

    Parameters
    ----------
    max_normalised : float
        Largest ``|y - x| / s`` where the step ``s`` is positive.
    mean_abs : float
        Mean of ``|y - x|``.
    p99_abs : float
        99th percentile of ``|y - x|``, nearest rank.
    """

    max_normalised: float
    mean_abs: float
    p99_abs: float


@dataclass(frozen=True)
class HeadCounts:
    """Heads by the rule that holds for them; the last four are the codec's documented edges."""

    ordinary: int
    zeros: int
    subnormal_step: int
    largest: int
    not_finite: int


@dataclass(frozen=True)
class BoundReport:
    """An error bound that held for every element.

    Parameters
    ----------
    heads : HeadCounts
        Which rule held for how many heads.
    quantisation : float
        Largest ``|q * s - x| / s``; at most 0.5.
    output_rounding : float
        Largest ``|y - q * s| / |y|``; at most 2**-8.
    total : float
        Largest share of the whole bound that an error used; at most 1.
    clamped : int
        Elements whose quotient rounds past 127. Only the heads counted as ``largest`` can have any.
    differing : int
        Elements that are not stored and restored exactly as the reference quantiser does.
    idempotent : bool
        Whether encoding the restored rows gives the same blocks, byte for byte.
    errors : ErrorMetrics
        Over all heads that are finite.

    Raises
    ------
    ValueError
        If a term exceeds its bound: there is no report of a bound that does not hold.
    """

    heads: HeadCounts
    quantisation: float
    output_rounding: float
    total: float
    clamped: int
    differing: int
    idempotent: bool
    errors: ErrorMetrics

    def __post_init__(self) -> None:
        limits = {
            "quantisation": QUANTISATION_BOUND,
            "output_rounding": BF16_ROUNDOFF,
            "total": 1.0,
        }
        for term, limit in limits.items():
            value = getattr(self, term)
            if not value <= limit:
                raise ValueError(f"BoundReport.{term} is {value}, above its bound {limit}")


class ErrorBoundViolated(ArithmeticError):  # noqa: N818 - says what happened
    """The first element, in memory order, that breaks a rule.

    Parameters
    ----------
    rule : str
        What should have held.
    where : tuple of int
        Token, head and dimension.
    value, restored, bound : float
        The element before and after, and the largest error that the rule allows.
    """

    def __init__(
        self, rule: str, where: tuple[int, int, int], value: float, restored: float, bound: float
    ) -> None:
        super().__init__(rule, where, value, restored, bound)
        self.rule = rule
        self.where = where
        self.value = value
        self.restored = restored
        self.bound = bound

    def __str__(self) -> str:
        token, head, dim = self.where
        return (
            f"token {token}, head {head}, dim {dim}: {self.value!r} is restored as "
            f"{self.restored!r}, but {self.rule} (bound {self.bound!r})"
        )


def round_to_bf16(values: torch.Tensor) -> torch.Tensor:
    """Round float64 values to BF16's grid, half to even, and return them as float64.

    Keeps the leading 8 of 53 significand bits by integer arithmetic on the representation, or
    whole multiples of 2**-133 where BF16 is subnormal (IEEE 754-2019, 4.3.1 and 3.4).
    """
    dropped = 53 - 8
    bits = values.view(torch.int64)
    to_even = (bits >> dropped) & 1
    rounded = (bits + (1 << (dropped - 1)) - 1 + to_even) >> dropped << dropped
    normal = rounded.view(torch.float64)
    normal = torch.where(normal.abs() < 2.0**128, normal, normal.sign() * math.inf)
    subnormal = (values * 2.0**133).round() * 2.0**-133
    return torch.where(values.abs() < _SMALLEST_STEP, subnormal, normal)


@dataclass(frozen=True)
class ReferenceInt8:
    """What INT8 blocks store and restore, in float64 by the definition.

    The masks and ``step`` are ``[tokens, kv_heads, 1]``, the rest ``[tokens, kv_heads, head_dim]``.
    """

    step: torch.Tensor
    quotient: torch.Tensor  # rounded, not yet clamped
    stored: torch.Tensor
    restored: torch.Tensor
    zeros: torch.Tensor
    subnormal_step: torch.Tensor
    largest: torch.Tensor
    not_finite: torch.Tensor

    @classmethod
    def of(cls, values: torch.Tensor) -> ReferenceInt8:
        """Quantise float64 ``[tokens, kv_heads, head_dim]`` that BF16 represents."""
        largest_value = values.abs().amax(-1, keepdim=True)
        not_finite = ~largest_value.isfinite()
        # A second rounding after float64's own could only matter at a midpoint of BF16's grid,
        # and a quotient by 127 is none: the midpoint's odd 9-bit integer times 127 has 16 bits.
        wanted = round_to_bf16(largest_value / _LEVELS)
        subnormal_step = (largest_value > 0) & (wanted < _SMALLEST_STEP)
        step = wanted.clamp(max=_LARGEST_STEP).masked_fill(subnormal_step, 0.0)
        has_quotients = (step > 0) & ~not_finite
        quotient = torch.where(has_quotients, (values / step).round(), 0.0)
        stored = quotient.clamp(-_LEVELS, _LEVELS)
        step = step.masked_fill(not_finite, math.nan)
        return cls(
            step=step,
            quotient=quotient,
            stored=stored,
            restored=round_to_bf16(stored * step),
            zeros=largest_value == 0,
            subnormal_step=subnormal_step,
            largest=(wanted > _LARGEST_STEP) & ~not_finite,
            not_finite=not_finite,
        )

    @property
    def has_step(self) -> torch.Tensor:
        """Heads whose elements the error bound is about."""
        return ~(self.zeros | self.subnormal_step | self.not_finite)

    def heads(self) -> HeadCounts:
        """Count the heads of each kind."""
        largest = int(self.largest.sum())
        return HeadCounts(
            ordinary=int(self.has_step.sum()) - largest,
            zeros=int(self.zeros.sum()),
            subnormal_step=int(self.subnormal_step.sum()),
            largest=largest,
            not_finite=int(self.not_finite.sum()),
        )


@dataclass(frozen=True)
class _RoundTrip:
    """What the codec made of some rows, as float64 on the CPU."""

    values: torch.Tensor  # [tokens, kv_heads, head_dim], as are the next two
    stored: torch.Tensor
    restored: torch.Tensor
    step: torch.Tensor  # [tokens, kv_heads, 1]
    idempotent: bool

    @classmethod
    def of(cls, rows: torch.Tensor, block: Int8Block) -> _RoundTrip:
        pages = rows.unflatten(0, (-1, block.rows.page_size))
        workspace = block.workspace(len(pages), rows.device)
        shape = (len(pages), block.block_bytes)
        first, second = torch.empty((2, *shape), dtype=torch.uint8, device=rows.device)
        restored = torch.empty_like(pages)
        block.encode(pages, first, workspace)
        block.decode(first, restored, workspace)
        block.encode(restored, second, workspace)
        blocks = first.cpu()
        return cls(
            values=rows.cpu().double(),
            stored=block.payload(blocks).flatten(0, 1).double(),
            restored=restored.flatten(0, 1).cpu().double(),
            step=block.scales(blocks).flatten(0, 1).double().unsqueeze(-1),
            idempotent=torch.equal(blocks, second.cpu()),
        )

    @property
    def product(self) -> torch.Tensor:
        """What the codec's decoder rounds to BF16."""
        return self.stored * self.step


def error_metrics(values: torch.Tensor, restored: torch.Tensor, step: torch.Tensor) -> ErrorMetrics:
    """Measure the error of restored values.

    Parameters
    ----------
    values, restored : torch.Tensor
        Finite, of one shape; compared in float64.
    step : torch.Tensor
        What an error is normalised by, broadcast to that shape; elements without a positive step
        do not count in ``max_normalised``.

    Returns
    -------
    ErrorMetrics
        All zero where there is nothing to measure.
    """
    errors = (restored.double() - values.double()).abs()
    if errors.numel() == 0:
        return ErrorMetrics(0.0, 0.0, 0.0)
    rank = math.ceil(0.99 * errors.numel())
    normalised = torch.where(step > 0, errors / step, 0.0)
    return ErrorMetrics(
        max_normalised=normalised.max().item(),
        mean_abs=errors.mean().item(),
        p99_abs=errors.flatten().kthvalue(rank).values.item(),
    )


def verified_error_bound(rows: torch.Tensor, block: Int8Block) -> BoundReport:
    """Encode and decode ``rows`` and hold every element to the bound, by an exact reference.

    Parameters
    ----------
    rows : torch.Tensor
        BF16 ``[tokens, heads, dim]``, whole pages of the block's, on the device to check. Takes
        some 100 bytes of host memory for each value.
    block : Int8Block
        The format to verify.

    Returns
    -------
    BoundReport
        How much of each term's bound was used, and whether the result is the exact one.

    Raises
    ------
    ErrorBoundViolated
        Names the first element that breaks the bound, or the rule of its head's edge.
    ValueError
        If ``rows`` are not whole pages of BF16 rows of the block's shape.

    Notes
    -----
    The terms are compared with the reference's step, not the codec's, so a codec that stores too
    large a step does not widen its own bound.

    Examples
    --------
    >>> from hiqcache.geometry import PageRows
    >>> block = Int8Block(PageRows(1, heads=8, dim=128, dtype=torch.bfloat16))
    >>> rows = torch.linspace(-1, 1, 8 * 128).reshape(1, 8, 128).bfloat16()
    >>> verified_error_bound(rows, block).quantisation <= 0.5
    True
    """
    _require_rows(rows, block)
    trip = _RoundTrip.of(rows, block)
    exact = ReferenceInt8.of(trip.values)
    _raise_first_violation(trip, exact)
    return _report(trip, exact)


def _require_rows(rows: torch.Tensor, block: Int8Block) -> None:
    page, *row = block.rows.shape
    wanted = (torch.bfloat16, row)
    if (rows.dtype, list(rows.shape[1:])) != wanted or rows.shape[0] % page:
        raise ValueError(
            f"rows must be torch.bfloat16 [tokens, {row[0]}, {row[1]}] in pages of {page}, "
            f"got {rows.dtype} {list(rows.shape)}"
        )


@dataclass(frozen=True)
class _Rule:
    """Something that holds for every element of the heads it is about."""

    text: str
    broken: torch.Tensor
    bound: torch.Tensor | float


def _rules(trip: _RoundTrip, exact: ReferenceInt8) -> list[_Rule]:
    x, y, product = trip.values, trip.restored, trip.product
    half_step = QUANTISATION_BOUND * exact.step
    output = BF16_ROUNDOFF * y.abs()
    tiny = (_LEVELS + 0.5) * _SMALLEST_STEP
    lost = exact.subnormal_step & ~((y == 0) & (x.abs() < tiny))

    def exceeds(error: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
        return exact.has_step & ~(error.abs() <= bound)  # a NaN exceeds

    return [
        _Rule("NaN or infinity: all of the head is NaN", exact.not_finite & ~y.isnan(), math.nan),
        _Rule("a head of zeros stays zeros", exact.zeros & ~(y == 0), 0.0),
        _Rule("a head of a subnormal step becomes zeros", lost, tiny),
        _Rule("a finite head stays finite", exact.has_step & ~y.isfinite(), half_step),
        _Rule("|q*s - x| <= s/2", exceeds(product - x, half_step), half_step),
        _Rule("|y - q*s| <= 2**-8*|y|", exceeds(y - product, output), output),
        # Their sum bounds |y - x|; the report has how much of it was used.
    ]


def _raise_first_violation(trip: _RoundTrip, exact: ReferenceInt8) -> None:
    rules = _rules(trip, exact)
    broken = torch.stack([rule.broken for rule in rules])
    if not broken.any():
        return
    token, head, dim = broken.any(0).nonzero()[0].tolist()
    first = next(rule for rule in rules if rule.broken[token, head, dim])
    bound = torch.as_tensor(first.bound, dtype=torch.float64).expand_as(trip.values)
    raise ErrorBoundViolated(
        first.text,
        (token, head, dim),
        value=trip.values[token, head, dim].item(),
        restored=trip.restored[token, head, dim].item(),
        bound=bound[token, head, dim].item(),
    )


def _largest(values: torch.Tensor) -> float:
    return values.max().item() if values.numel() else 0.0


def _report(trip: _RoundTrip, exact: ReferenceInt8) -> BoundReport:
    steps = exact.step.expand_as(trip.values)
    finite = ~steps.isnan()
    bounded = exact.has_step.expand_as(trip.values)
    parts = (trip.values, trip.restored, trip.product, steps)
    x, y, product, step = (part[bounded] for part in parts)
    differs = (
        (trip.stored != exact.stored)
        | _different(trip.step, exact.step)
        | _different(trip.restored, exact.restored)
    )
    return BoundReport(
        heads=exact.heads(),
        quantisation=_largest((product - x).abs() / step),
        output_rounding=_largest(((y - product).abs() / y.abs())[y != 0]),
        total=_largest((y - x).abs() / (QUANTISATION_BOUND * step + BF16_ROUNDOFF * y.abs())),
        clamped=int((exact.quotient.abs() > _LEVELS).sum()),
        differing=int(differs.sum()),
        idempotent=trip.idempotent,
        errors=error_metrics(trip.values[finite], trip.restored[finite], steps[finite]),
    )


def _different(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a != b) & ~(a.isnan() & b.isnan())
