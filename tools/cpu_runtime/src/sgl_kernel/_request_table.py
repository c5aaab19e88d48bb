"""The table of each request's cache slots: one row a request, one column a token."""

import torch


def assign_req_to_token_pool_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
) -> None:
    """Write newly allocated cache slots into the rows of their requests.

    Parameters
    ----------
    req_pool_indices
        The row of each request, ``[batch]``.
    req_to_token
        The table, ``[rows, pool_len]``; written in place.
    start_offset, end_offset
        The half-open range of columns that each request fills, ``[batch]``.
    out_cache_loc
        The slots of all requests, one after another.
    pool_len
        The row length, which the compiled operation needs; here the tensor knows it.
    """
    rows = req_pool_indices.tolist()
    starts, ends = start_offset.tolist(), end_offset.tolist()
    first = 0
    for row, start, end in zip(rows, starts, ends, strict=True):
        last = first + end - start
        req_to_token[row, start:end] = out_cache_loc[first:last].to(req_to_token.dtype)
        first = last
