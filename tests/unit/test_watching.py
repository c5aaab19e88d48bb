"""A server's L2, read while it serves."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import pytest

from evidence.watching import USED, l2_watched
from serving.client import RequestError


class Server:
    """Answers once with each text or failure, and says when it has no more."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers: Iterator[str | Exception] = iter(answers)
        self.asked_for_more = Event()

    def metrics(self) -> str:
        answer = next(self.answers, None)
        if answer is None:
            self.asked_for_more.set()
            answer = ""
        if isinstance(answer, Exception):
            raise answer
        return answer


def used(tokens: int) -> str:
    return f"# TYPE {USED} gauge\n{USED} {tokens}\n"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evidence.watching._EVERY_S", 0.001)


@pytest.mark.parametrize(
    ("answers", "readings"),
    [
        ((used(3), used(9), used(5)), [3, 9, 5]),
        ((used(3), RequestError("/metrics was not answered"), used(5)), [3, 5]),
        (("# TYPE g gauge\ng 7\n",), []),
        (("no metrics {", used(5)), [5]),
        # What it said before it was flushed, until a batch sets it.
        ((used(7), used(7), used(2), used(7)), [2, 7]),
    ],
)
def test_readings_while_it_serves(answers, readings):
    server = Server(*answers)
    with l2_watched(server, before=7) as found:
        assert server.asked_for_more.wait(10)
    assert found == readings


def test_none_after_it_served():
    server = Server(*[used(n) for n in range(100_000)])
    with pytest.raises(ValueError, match="the benchmark"), l2_watched(server, None) as found:
        raise ValueError("the benchmark failed")
    count = len(found)
    assert not Event().wait(0.05)
    assert len(found) == count
