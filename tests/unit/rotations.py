"""The rotation of heads as a matrix, in float64 and integers."""

import math

import torch

#: Rotated values are kept so much smaller.
SHIFT = 2.0**-8


def sylvester(order: int) -> torch.Tensor:
    """Sylvester's matrix, by its definition and in integers."""
    matrix = torch.ones((1, 1), dtype=torch.int64)
    while matrix.shape[0] < order:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix


def matrix_of(dim: int) -> torch.Tensor:
    """The documented rotation, float64."""
    p = dim & -dim
    m = dim // p
    hadamard = sylvester(p).double() / math.sqrt(p)
    mean = torch.full((m, m), 1 / m, dtype=torch.float64)
    across = torch.eye(m, dtype=torch.float64) - 2 * mean if m > 1 else mean
    return torch.kron(across, hadamard)
