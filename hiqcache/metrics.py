"""What a codec costs, as Prometheus metrics beside SGLang's own of HiCache.

A server without ``--enable-metrics`` runs :class:`~hiqcache.staging.StagedTransfer`, which knows
nothing of this. With it, encoding and decoding are timed, with the gather before the one and the
scatter after the other, which a raw transfer does not have: on a CPU by the clock and on a GPU
between CUDA events. Those are read at the end of a later transfer, once they have passed, and
never waited for.

====================================================  =========  ==================================
metric                                                kind       of
====================================================  =========  ==================================
``sglang:hicache_codec_encode_seconds``               histogram  a backup, all its layers
``sglang:hicache_codec_decode_seconds``               histogram  a load, all its layers
``sglang:hicache_codec_encoded_bytes_total``          counter    bytes that backups made
``sglang:hicache_codec_decoded_bytes_total``          counter    bytes that loads took
``sglang:hicache_codec_bytes_per_token``              gauge      all layers, K and V
``sglang:hicache_codec_ratio``                        gauge      raw bytes to those
====================================================  =========  ==================================

Each has the labels ``model_name`` and ``codec``; ranks that share a registry are summed.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from hiqcache.codecs.base import KVCodec
from hiqcache.staging import Move, StagedTransfer

_PREFIX = "sglang:hicache_codec_"
_LABELS = ("model_name", "codec")
#: Seconds: from a page on a GPU to a long prefix on a CPU.
_BUCKETS = tuple(base * 10.0**exponent for exponent in range(-5, 2) for base in (1, 2, 5))


@cache
def _instruments() -> dict[str, Any]:
    """The metrics of this process; imported late, once SGLang has said where they are kept."""
    from prometheus_client import Counter, Gauge, Histogram

    def histogram(name: str, text: str) -> Histogram:
        return Histogram(_PREFIX + name, text, _LABELS, buckets=_BUCKETS)

    def gauge(name: str, text: str) -> Gauge:
        return Gauge(_PREFIX + name, text, _LABELS, multiprocess_mode="mostrecent")

    return {
        "encode": histogram("encode_seconds", "Time to gather and encode one backup."),
        "decode": histogram("decode_seconds", "Time to decode and scatter one load."),
        "encoded": Counter(_PREFIX + "encoded_bytes_total", "Bytes made by backups.", _LABELS),
        "decoded": Counter(_PREFIX + "decoded_bytes_total", "Bytes taken by loads.", _LABELS),
        "bytes_per_token": gauge("bytes_per_token", "Host bytes of a token."),
        "ratio": gauge("ratio", "Raw bytes of a token to its host bytes."),
    }


@dataclass
class _Spans:
    """Seconds between pairs of moments, once a device has passed them.

    Parameters
    ----------
    mark : callable
        Notes a moment on the current stream.
    passed : callable
        Whether a moment lies behind.
    seconds : callable
        From one moment to another.
    """

    mark: Callable[[], Any]
    passed: Callable[[Any], bool]
    seconds: Callable[[Any, Any], float]
    _open: list[tuple[Any, Any]] = field(default_factory=list)
    _closed: deque[list[tuple[Any, Any]]] = field(default_factory=deque)

    @classmethod
    def on(cls, device: torch.device) -> _Spans:
        """The clock of a device."""
        if device.type != "cuda":
            return cls(time.perf_counter, lambda moment: True, lambda a, b: b - a)

        def mark() -> torch.cuda.Event:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            return event

        return cls(mark, lambda event: event.query(), lambda a, b: a.elapsed_time(b) / 1000)

    def measure(self, work: Callable[[], None]) -> None:
        """Do ``work`` as a part of the transfer that is under way."""
        start = self.mark()
        work()
        self._open.append((start, self.mark()))

    def drop(self) -> None:
        """Forget what the transfer under way has measured."""
        self._open = []

    def close(self) -> None:
        """End the transfer; one that did nothing is none."""
        if self._open:
            self._closed.append(self._open)
            self._open = []

    def finished(self) -> list[float]:
        """Seconds of each transfer that ended and was executed, each once."""
        done = []
        # A direction has one stream, so what ends last lies behind all the rest.
        while self._closed and self.passed(self._closed[0][-1][1]):
            done.append(sum(self.seconds(*span) for span in self._closed.popleft()))
        return done


class MeasuredTransfer(StagedTransfer):
    """A transfer that exports what its codec costs.

    Parameters
    ----------
    codec, device
        As for :class:`~hiqcache.staging.StagedTransfer`.
    model_name : str
        Label of the metrics.
    """

    def __init__(self, codec: KVCodec, device: torch.device, model_name: str) -> None:
        super().__init__(codec, device)
        self._export = {
            name: metric.labels(model_name, codec.id) for name, metric in _instruments().items()
        }
        self._export["bytes_per_token"].set(codec.bytes_per_token)
        self._export["ratio"].set(codec.geometry.bytes_per_token / codec.bytes_per_token)
        self._encoding, self._decoding = _Spans.on(device), _Spans.on(device)
        self._layers_loaded = 0

    def backup(
        self,
        keys: Sequence[torch.Tensor],
        values: Sequence[torch.Tensor],
        device_indices: torch.Tensor,
        host_indices: torch.Tensor,
        store: Move,
    ) -> None:
        self._encoding.drop()  # of one that failed
        super().backup(keys, values, device_indices, host_indices, store)
        self._end(self._encoding, "encoded", device_indices.shape[0])

    def load(
        self,
        keys: torch.Tensor,
        values: torch.Tensor,
        device_indices: torch.Tensor,
        host_indices: torch.Tensor,
        fetch: Move,
    ) -> None:
        try:
            super().load(keys, values, device_indices, host_indices, fetch)
        except BaseException:
            self._layers_loaded = 0
            self._decoding.drop()
            raise
        self._layers_loaded += 1
        if self._layers_loaded == self.codec.geometry.layers:
            self._layers_loaded = 0
            self._end(self._decoding, "decoded", device_indices.shape[0])

    def _end(self, ended: _Spans, counter: str, tokens: int) -> None:
        ended.close()
        self._export[counter].inc(tokens * self.codec.bytes_per_token)
        for histogram, spans in (("encode", self._encoding), ("decode", self._decoding)):
            for seconds in spans.finished():
                self._export[histogram].observe(seconds)

    def _encode(
        self, keys: Sequence[torch.Tensor], values: Sequence[torch.Tensor], slots: torch.Tensor
    ) -> None:
        encode = super()._encode
        self._encoding.measure(lambda: encode(keys, values, slots))

    def _decode(self, keys: torch.Tensor, values: torch.Tensor, slots: torch.Tensor) -> None:
        decode = super()._decode
        self._decoding.measure(lambda: decode(keys, values, slots))
