"""Requests to a server, one at a time, and what a reply says about the cache."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    generated
        Tokens of the answer, each with its logprob.
    """

    prompt_tokens: int
    device_tokens: int
    host_tokens: int
    seconds: float
    logprobs: tuple[float, ...]
    generated: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        if min(self.device_tokens, self.host_tokens) < 0 or self.cached_tokens > self.prompt_tokens:
            raise ValueError(
                f"{self.device_tokens} + {self.host_tokens} cached of {self.prompt_tokens} tokens"
            )

    @property
    def cached_tokens(self) -> int:
        """Tokens that were not computed."""
        return self.device_tokens + self.host_tokens


@contextmanager
def _reading(path: str, answer: str) -> Iterator[None]:
    """Take an answer of another form for a failed request."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as error:
        raise RequestError(f"{path} answered {answer[:80]!r}") from error


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
        self.url = url.rstrip("/")
        self._timeout_s = timeout_s

    def complete(self, ids: Sequence[int], scored_from: int = -1, new_tokens: int = 1) -> Reply:
        """Send a prompt, have its end scored and tokens generated greedily.

        Parameters
        ----------
        ids
            The prompt's tokens.
        scored_from
            Position after which prompt tokens are scored, or -1 for none. SGLang reads no KV from
            a cache beyond it.
        new_tokens
            How many to generate.
        """
        body = {
            "input_ids": list(ids),
            "sampling_params": {"temperature": 0, "max_new_tokens": new_tokens, "ignore_eos": True},
            "return_logprob": True,
            "logprob_start_len": scored_from,
        }
        started = time.perf_counter()
        answer = self._send("/generate", body)
        seconds = time.perf_counter() - started
        with _reading("/generate", answer):
            meta = json.loads(answer)["meta_info"]
            cached = meta["cached_tokens_details"] or {"device": 0, "host": 0}
            # The first position is scored on nothing, and has no logprob.
            scored = [float(logprob) for logprob, *_ in meta["input_token_logprobs"][1:]]
            generated = [(token, float(p)) for p, token, *_ in meta["output_token_logprobs"]]
            return Reply(
                prompt_tokens=meta["prompt_tokens"],
                device_tokens=cached["device"],
                host_tokens=cached["host"],
                seconds=seconds,
                logprobs=tuple(scored),
                generated=tuple(generated),
            )

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Return texts as token ids of the served model, without special tokens."""
        answer = self._send("/tokenize", {"prompt": list(texts), "add_special_tokens": False})
        with _reading("/tokenize", answer):
            return json.loads(answer)["tokens"]

    def server_info(self) -> dict[str, Any]:
        """Return the server's arguments, as resolved, and what it found out about itself."""
        answer = self._send("/server_info")
        with _reading("/server_info", answer):
            return json.loads(answer)

    def flush(self) -> None:
        """Empty L1 and L2, once the server is idle."""
        self._send("/flush_cache?timeout=60", {})

    def metrics(self) -> str:
        """Return the counters as Prometheus' text."""
        return self._send("/metrics")

    def _send(self, path: str, body: dict[str, Any] | None = None) -> str:
        try:
            request = urllib.request.Request(
                self.url + path,
                data=None if body is None else json.dumps(body).encode(),
                headers={"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            said = error.read(200).decode(errors="replace")
            raise RequestError(f"{path} answered {error.code} {said}") from error
        except (OSError, HTTPException, ValueError) as error:  # no address, or no UTF-8
            raise RequestError(f"{path} was not answered ({error})") from error
