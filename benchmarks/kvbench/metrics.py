"""How far a prediction is from the one with BF16 KV."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Score:
    """Sums over the scored tokens of a window.

    Parameters
    ----------
    tokens
        How many were scored.
    divergence
        Kullback-Leibler divergence from the prediction with BF16 KV, in nats.
    largest
        The largest of any token.
    agreeing
        Tokens with the same most likely successor.
    surprise
        Added negative log-likelihood of the true successors, in nats.
    """

    tokens: int
    divergence: float
    largest: float
    agreeing: int
    surprise: float


def compare(reference: torch.Tensor, found: torch.Tensor, following: torch.Tensor) -> Score:
    """Compare logits ``[tokens, vocabulary]`` with those of BF16 KV.

    The divergence of ``q`` from ``p``, whose logits differ by ``d``, is ``E[d] + log E[exp(-d)]``
    under ``p``: sums of small numbers, where the definition cancels logarithms of large ones. It is
    the same for ``d`` less its mean, which keeps the exponentials near one.

    Parameters
    ----------
    reference
        With BF16 KV.
    found
        With what a format made of it.
    following
        The tokens that truly follow, ``[tokens]``.
    """
    probability = torch.softmax(reference, dim=-1)
    lost = reference - found
    lost -= (probability * lost).sum(-1, keepdim=True)
    # What is clamped is a disaster, and one of e**80 is told as well as a larger one.
    gains = probability * torch.expm1(-lost.clamp_min(-80.0))
    gained = gains.sum(-1, dtype=torch.float64).log1p()
    divergence = (probability * lost).sum(-1, dtype=torch.float64) + gained
    surprise = lost.gather(1, following[:, None])[:, 0] + gained
    return Score(
        tokens=len(reference),
        divergence=divergence.sum().item(),
        largest=divergence.max().item(),
        agreeing=int((reference.argmax(-1) == found.argmax(-1)).sum()),
        surprise=surprise.sum().item(),
    )
