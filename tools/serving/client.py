"""Requests to a server, one at a time, and what a reply says about the cache."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any


class RequestError(Exception):
    """A request that the server did not answer as it should."""


@dataclass(frozen=True)
class Reply:
    """What one request cost and where its prompt's KV came from.

    Parameters
    ----------
    prompt_tokens
        Tokens of the prompt.
    device_tokens
        Of those, tokens whose KV was in L1.
    host_tokens
        Of those, tokens whose KV was restored from L2.
    seconds
        Wall time from sending the request to its whole answer.
    logprobs
        Natural logarithms of the scored prompt tokens' probabilities.
    """

    prompt_tokens: int
    device_tokens: int
    host_tokens: int
    seconds: float
    logprobs: tuple[float, ...]

    def __post_init__(self) -> None:
        if min(self.device_tokens, self.host_tokens) < 0 or self.cached_tokens > self.prompt_tokens:
            raise ValueError(
                f"{self.device_tokens} + {self.host_tokens} cached of {self.prompt_tokens} tokens"
            )

    @property
    def cached_tokens(self) -> int:
        """Tokens that were not computed."""
        return self.device_tokens + self.host_tokens


class Client:
    """Talks to one server.

    Parameters
    ----------
    url
        ``http://host:port``.
    timeout_s
        Longest wait for one answer.
    """

    def __init__(self, url: str, timeout_s: float = 300.0) -> None:
        self._url = url
        self._timeout_s = timeout_s

    def first_token(self, ids: Sequence[int], scored_from: int) -> Reply:
        """Send a prompt, have one token generated and the prompt's end scored.

        Parameters
        ----------
        ids
            The prompt's tokens.
        scored_from
            Position from which prompt tokens are scored. SGLang reads no KV from a cache beyond
            it.
        """
        body = {
            "input_ids": list(ids),
            "sampling_params": {"temperature": 0, "max_new_tokens": 1, "ignore_eos": True},
            "return_logprob": True,
            "logprob_start_len": scored_from,
        }
        started = time.perf_counter()
        answer = self._send("/generate", body)
        seconds = time.perf_counter() - started
        try:
            meta = json.loads(answer)["meta_info"]
            cached = meta["cached_tokens_details"] or {"device": 0, "host": 0}
            found = cached["device"], cached["host"]
            # The first position is scored on nothing, and has no logprob.
            scored = [x[0] for x in meta["input_token_logprobs"] if x[0] is not None]
            return Reply(meta["prompt_tokens"], *found, seconds, tuple(scored))
        except (ValueError, KeyError, TypeError) as error:
            raise RequestError(f"/generate answered {answer[:80]!r}") from error

    def flush(self) -> None:
        """Empty L1 and L2, once the server is idle."""
        self._send("/flush_cache?timeout=60", {})

    def metrics(self) -> str:
        """Return the counters as Prometheus' text."""
        return self._send("/metrics")

    def _send(self, path: str, body: dict[str, Any] | None = None) -> str:
        request = urllib.request.Request(
            self._url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            said = error.read(200).decode(errors="replace")
            raise RequestError(f"{path} answered {error.code} {said}") from error
        except (OSError, HTTPException) as error:
            raise RequestError(f"{path} was not answered ({error})") from error
