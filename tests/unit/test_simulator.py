"""``tools/simulator``: SGLang's cache rules, each in a case that can be followed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.record import Workload
from serving.l2 import SELECTIVE, WRITE_BACK, WRITE_POLICIES, WRITE_THROUGH
from simulator import cache as cache_module
from simulator.cache import Cache
from simulator.engine import DoesNotFitError, Engine, simulate
from simulator.node import Node
from simulator.outcome import Outcome, Served
from simulator.server import LOAD_BACK_THRESHOLD, Server
from simulator.tokens import Tokens, joined, run_of
from simulator.trace import Ask, generated, group_order
from simulator.tree import Tree

#: An L1 and an L2 in which nothing is ever evicted.
AMPLE = 100_000


def asks(
    groups: Sequence[int], prefix: int = 100, question: int = 10, output: int = 5
) -> list[Ask]:
    return [Ask(group, prefix, question, output) for group in groups]


def hits(outcome: Outcome) -> list[tuple[int, int]]:
    return [(request.device_tokens, request.host_tokens) for request in outcome.requests]


def alone(server: Server, trace: Sequence[Ask]) -> Outcome:
    """One request at a time."""
    return simulate(server, trace, 1)


def small(l2: int = 0, **options: object) -> Server:
    """An L1 for one request of :func:`asks`, and little else."""
    return Server(130, l2, **options)  # type: ignore[arg-type]


# --- sequences of tokens -------------------------------------------------------------------------


def test_a_cut_keeps_where_its_tokens_come_from() -> None:
    whole = joined(run_of("a", 10), run_of("b", 5))
    assert whole.cut(8, 12) == Tokens((("a", 8, 10), ("b", 0, 2)))
    assert whole.cut(0, 99) == whole
    assert len(whole.cut(15)) == 0


@given(st.integers(0, 30), st.integers(0, 30))
def test_what_two_sequences_share_does_not_depend_on_how_they_are_cut(at: int, length: int) -> None:
    one, other = (joined(run_of("a", 12), run_of(end, 9)) for end in "bc")
    pieces = joined(one.cut(0, at), one.cut(at))
    assert len(pieces) == 21
    assert pieces.common(other.cut(0, length)) == min(12, length)
    assert pieces.common(one.cut(0, length)) == min(21, length)


# --- what is a hit -------------------------------------------------------------------------------


def test_a_prefix_that_was_sent_before_is_a_hit() -> None:
    assert hits(alone(Server(AMPLE), asks([0, 0, 1, 0]))) == [(0, 0), (100, 0), (0, 0), (100, 0)]


def test_whole_pages_are_hits() -> None:
    assert hits(alone(Server(AMPLE - AMPLE % 64, page_size=64), asks([0, 0])))[1] == (64, 0)


def test_the_last_token_of_a_prompt_is_computed() -> None:
    assert hits(alone(Server(AMPLE), asks([0, 0], question=0)))[1] == (99, 0)


def test_what_is_being_computed_is_computed_again_by_those_in_the_same_pass() -> None:
    assert hits(simulate(Server(AMPLE), asks([1, 0, 0]), 3)) == [(0, 0)] * 3


@pytest.mark.parametrize(("overlap", "hit"), [(True, 0), (False, 100)])
def test_with_overlap_the_next_pass_does_not_see_it_either(overlap: bool, hit: int) -> None:
    one_prompt_a_pass = Server(AMPLE, chunk_tokens=110, overlap=overlap)
    assert hits(simulate(one_prompt_a_pass, asks([0, 0]), 2)) == [(0, 0), (hit, 0)]


def test_a_prompt_that_is_computed_in_chunks_is_in_the_tree_by_then() -> None:
    chunks = Server(AMPLE, chunk_tokens=60)
    # The third pass computes the rest of the first prompt, and 10 tokens of the second one.
    assert hits(simulate(chunks, asks([0, 0]), 2)) == [(0, 0), (60, 0)]


def test_an_answer_is_kept_as_well() -> None:
    engine = Engine(Server(AMPLE), asks([0]), 1)
    engine.run()
    assert [(node.length, node.on_device) for node in engine.cache.tree.nodes()] == [
        (110, True),
        (4, True),  # the last token was never fed back
    ]


# --- L1 ------------------------------------------------------------------------------------------


def test_l1_evicts_what_was_used_least_recently() -> None:
    two = Server(240)
    assert hits(alone(two, asks([0, 1, 0, 2, 0]))) == [(0, 0), (0, 0), (100, 0), (0, 0), (100, 0)]
    assert hits(alone(two, asks([0, 1, 2, 0])))[-1] == (0, 0)


def test_l1_evicts_leaves_first_and_whole_nodes() -> None:
    cache = Cache(Server(30))
    prefix = run_of("p", 10)
    for name in "ab":
        cache.insert(joined(prefix, run_of(name, 10)), 0, 0)
        cache.take(10 if name == "b" else 20)
    assert cache.free == 10 - 10 + 10  # the second request's copy of the prefix is free again
    assert cache.make_room(11)
    assert cache.free == 20, "ten tokens of one leaf"
    assert {node.length for node in cache.tree.nodes()} == {10}
    assert cache.match(prefix, 10).device_tokens == 10


def test_what_is_needed_is_not_evicted() -> None:
    cache = Cache(Server(20))
    cache.take(10)
    node = cache.insert(run_of("a", 10), 0, 0)
    cache.tree.lock(node)
    assert not cache.make_room(11)
    cache.tree.unlock(node)
    assert cache.make_room(11)


def test_a_request_waits_until_l1_has_room_for_its_answer_too() -> None:
    # The first has 110 and reserves 5. The second asks for 110 + 5 + a page, and needs more.
    both, one = Server(110 + 5 + 116 + 1), Server(110 + 5 + 116)
    assert simulate(both, asks([0, 1]), 2).passes < simulate(one, asks([0, 1]), 2).passes
    assert hits(simulate(one, asks([0, 0]), 2))[1] == (100, 0), "it came after the first"


@pytest.mark.parametrize(("output", "hit"), [(2, 16), (3, 0)])
def test_each_decode_pass_makes_room_for_a_page_of_each_answer(output: int, hit: int) -> None:
    # The second answer's first token takes the last page; room is made when it has another one.
    trace = [Ask(0, 16, 16, 2), Ask(1, 16, 16, output), Ask(0, 16, 16, 2)]
    assert hits(alone(Server(80, page_size=16), trace))[2] == (hit, 0)


def test_what_never_fits_is_refused() -> None:
    with pytest.raises(DoesNotFitError, match="110 tokens with an answer of 5"):
        alone(Server(116), asks([0]))
    alone(Server(117), asks([0]))


# --- L2 ------------------------------------------------------------------------------------------


def test_l2_gives_back_what_l1_evicted() -> None:
    outcome = alone(small(AMPLE), asks([0, 1, 0]))
    assert hits(outcome) == [(0, 0), (0, 0), (0, 100)]
    assert outcome.restored_tokens == 100
    assert hits(alone(small(0), asks([0, 1, 0]))) == [(0, 0)] * 3


@pytest.mark.parametrize(
    ("prefix", "hit"), [(LOAD_BACK_THRESHOLD - 1, 0), (LOAD_BACK_THRESHOLD, LOAD_BACK_THRESHOLD)]
)
def test_less_than_ten_tokens_are_not_restored(prefix: int, hit: int) -> None:
    trace = [Ask(0, prefix, 100, 5), Ask(1, prefix, 100, 5), Ask(0, prefix, 100, 5)]
    assert hits(alone(small(AMPLE), trace))[2] == (0, hit)


def test_write_through_writes_each_node_once() -> None:
    outcome = alone(small(AMPLE), asks([0, 1, 0]))
    assert outcome.backed_up_tokens == 2 * 114 + 14, "and keeps what it restored"
    assert outcome.dropped_tokens == 0


def test_selective_writes_what_is_used_twice() -> None:
    once = alone(small(AMPLE, write_policy=SELECTIVE), asks([0, 1, 0]))
    assert once.backed_up_tokens == 0 and hits(once) == [(0, 0)] * 3
    twice = alone(small(AMPLE, write_policy=SELECTIVE), asks([0, 0, 1, 0]))
    assert twice.backed_up_tokens == 100, "the prefix"
    assert hits(twice)[3] == (0, 100)


def test_write_back_writes_what_l1_evicts() -> None:
    ample = Server(AMPLE, AMPLE, write_policy=WRITE_BACK)
    assert alone(ample, asks([0, 1, 0])).backed_up_tokens == 0
    outcome = alone(small(AMPLE, write_policy=WRITE_BACK), asks([0, 1, 0]))
    assert hits(outcome)[2] == (0, 100)
    assert outcome.backed_up_tokens == outcome.l1_evicted_tokens


def filled(l2: int, policy: str = WRITE_THROUGH) -> tuple[Cache, list[Node]]:
    """Three nodes of 10 tokens in an L1 of 30."""
    cache = Cache(Server(30, l2, write_policy=policy, overlap=False))
    nodes = []
    for name in "abc":
        cache.take(10)
        nodes.append(cache.insert(run_of(name, 10), 0, 0))
        cache.now += 1
        cache.see_transfers()
    return cache, nodes


def test_l2_evicts_what_l1_has_no_more_and_was_used_least_recently() -> None:
    cache, (a, b, c) = filled(30)
    cache.make_room(20)
    assert [node.on_device for node in (a, b, c)] == [False, False, True]
    cache.match(run_of("a", 10), 10)  # used now
    cache.take(10)
    cache.insert(run_of("d", 10), 0, 0)
    assert [node.on_host for node in (a, b, c)] == [True, False, True]
    assert cache.match(run_of("b", 10), 10).node is cache.tree.root


def test_a_node_that_l2_has_no_room_for_is_dropped_when_l1_evicts_it() -> None:
    cache, (a, b, c) = filled(20)
    assert [node.on_host for node in (a, b, c)] == [True, True, False], "L1 holds what L2 does"
    cache.make_room(30)
    assert cache.dropped == 10
    assert cache.match(run_of("c", 10), 10).node is cache.tree.root


def test_a_node_that_was_not_written_is_tried_again_when_it_is_used() -> None:
    cache, (a, _, c) = filled(20)
    cache.make_room(10)  # evicts a, which L2 may give up then
    assert not a.on_device
    cache.insert(run_of("c", 10), 10, 0)
    assert c.on_host and not a.on_host


def test_write_back_gives_up_copies_of_what_l1_holds_first() -> None:
    cache, (a, b, _) = filled(20, WRITE_BACK)
    cache.make_room(20)
    cache.match(run_of("b", 10), 10)  # used after c
    assert cache.load_back(b) == 10
    cache.now += 1
    cache.see_transfers()
    assert b.on_device and b.on_host
    cache.take(10)
    cache.insert(run_of("d", 10), 0, 0)
    cache.make_room(10)  # evicts c, whose copy takes the place of b's
    assert a.on_host and b.on_device and not b.on_host


def test_write_back_drops_what_l2_has_no_room_for() -> None:
    cache, nodes = filled(5, WRITE_BACK)
    cache.make_room(20)
    assert cache.dropped == 20 and not any(node.on_host for node in nodes)


def test_a_restored_path_is_needed_until_its_transfer_has_ended() -> None:
    cache, (a, *_) = filled(30)
    cache.make_room(10)
    assert cache.load_back(a) == 10
    assert a.locks and a.host_locks and cache.has_transfers
    cache.now += 1
    cache.see_transfers()
    assert not (a.locks or a.host_locks or cache.has_transfers)


# --- recency -------------------------------------------------------------------------------------


def test_of_a_request_that_has_ended_the_answer_is_evicted_first() -> None:
    engine = Engine(Server(AMPLE), asks([0]), 1)
    engine.run()
    oldest = engine.cache.tree.device_leaves.oldest()
    assert oldest is not None and oldest.length == 4
    prompt = oldest.parent
    assert prompt is not None and prompt.used > oldest.used


def test_the_lower_part_of_a_split_counts_as_used() -> None:
    tree = Tree(1)
    first = tree.add(tree.root, run_of("a", 10))
    second = tree.add(tree.root, run_of("b", 10))
    tree.match(run_of("a", 5), 5)
    assert first.length == 5 and first.parent is not tree.root
    assert first.used > second.used


# --- what holds of every trace -------------------------------------------------------------------

servers = st.builds(
    lambda page, l1, l2, policy, chunk, overlap: Server(
        l1 * page, l2 * page, page, policy, max(page, chunk), overlap=overlap
    ),
    page=st.sampled_from((1, 4, 16)),
    l1=st.integers(150, 400),
    l2=st.integers(0, 400),
    policy=st.sampled_from(WRITE_POLICIES),
    chunk=st.sampled_from((16, 50, 8192)),
    overlap=st.booleans(),
)
traces = st.lists(
    st.builds(
        Ask,
        group=st.integers(0, 3),
        prefix=st.integers(0, 60),
        question=st.integers(1, 20),
        output=st.integers(1, 20),
    ),
    min_size=1,
    max_size=20,
)
concurrencies = st.sampled_from((1, 2, 5))


def assert_sound(engine: Engine, server: Server) -> None:
    cache, jobs = engine.cache, engine._jobs
    nodes = list(cache.tree.nodes())
    device = sum(node.length for node in nodes if node.on_device)
    host = sum(node.length for node in nodes if node.on_host)
    own = sum(server.taken(j.committed) - j.protected for j in jobs if j.committed and j.remaining)
    assert cache.free >= 0 and cache.free + device + own == server.l1_tokens
    assert cache.host.free >= 0 and cache.host.free + host == server.l2_tokens
    unneeded = sum(n.length for n in nodes if n.on_device and not n.locks)
    assert cache.tree.evictable == unneeded
    for node in nodes:
        assert node.on_device or node.on_host
        assert node.parent is not None and node.length % server.page_size == 0
        if node.on_device and node.parent is not cache.tree.root:
            assert node.parent.on_device, "L1 holds beginnings"
        assert node.device_children == sum(child.on_device for child in node.children.values())


@given(servers, traces, concurrencies)
def test_both_tiers_stay_within_their_tokens(
    server: Server, trace: list[Ask], concurrency: int
) -> None:
    engine = Engine(server, trace, concurrency)
    engine.run(lambda done, total: assert_sound(engine, server))
    outcome = engine._outcome()
    assert outcome.device_tokens + outcome.host_tokens <= outcome.prompt_tokens
    if not server.l2_tokens:
        assert outcome.host_tokens == outcome.restored_tokens == outcome.backed_up_tokens == 0
    assert outcome.restored_tokens == outcome.host_tokens


@given(servers, traces, concurrencies)
def test_nobody_needs_anything_in_the_end(
    server: Server, trace: list[Ask], concurrency: int
) -> None:
    engine = Engine(server, trace, concurrency)
    engine.run()
    engine.cache.now += 2
    engine.cache.see_transfers()
    assert engine.cache.available == server.l1_tokens
    assert not any(node.locks or node.host_locks for node in engine.cache.tree.nodes())


@given(servers, traces, concurrencies)
def test_several_decode_passes_at_once_are_as_many_single_ones(
    server: Server, trace: list[Ask], concurrency: int
) -> None:
    class Slow(Engine):
        def _steps_alone(self) -> int:
            return 1

    assert Engine(server, trace, concurrency).run() == Slow(server, trace, concurrency).run()


@given(servers, traces, st.sampled_from((1, 9)))
def test_one_at_a_time_it_does_not_matter_when_the_next_request_comes(
    server: Server, trace: list[Ask], passes: int
) -> None:
    expected = simulate(server, trace, 1).requests
    with mock.patch("simulator.engine._PASSES_TO_NEXT", passes):
        assert simulate(server, trace, 1).requests == expected


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(0, 12), st.integers(0, 12))
def test_a_larger_l2_is_never_worse_for_requests_alike_one_at_a_time(
    groups: list[int], one: int, other: int
) -> None:
    trace = asks(groups)
    smaller, larger = (alone(small(120 * n), trace) for n in sorted((one, other)))
    assert smaller.hit_rate <= larger.hit_rate


# --- negative controls ---------------------------------------------------------------------------


def seeded(l2: int) -> Outcome:
    """The workload that the project was started from, at a sixteenth of its size."""
    workload = Workload(32, 4, 128, 8, 8, 8, seed=1)
    return simulate(Server(1024, l2, chunk_tokens=512), generated(workload), 8)


def test_the_rules_tell_on_a_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    right = seeded(3390)
    assert right.hit_rate < seeded(6028).hit_rate
    with monkeypatch.context() as patch:
        for name in ("use", "use_path"):
            patch.setattr(Tree, name, lambda self, node: None)
        assert seeded(3390) != right, "first in, first out"
    with monkeypatch.context() as patch:
        patch.setattr(cache_module, "LOAD_BACK_THRESHOLD", 1000)
        assert seeded(3390).restored_tokens == 0
    with monkeypatch.context() as patch:
        patch.setattr(Node, "is_host_leaf", property(lambda node: node.on_host and not node.locks
                                                     and not node.children and not node.on_device
                                                     and node.used % 2 == 0))  # fmt: skip
        assert seeded(3390).hit_rate != right.hit_rate, "an L2 that evicts half of its leaves"


# --- which pass computes what --------------------------------------------------------------------


class Watched(Engine):
    """Tells the requests that each pass computed prompts of."""

    def __init__(self, server: Server, trace: Sequence[Ask], concurrency: int) -> None:
        super().__init__(server, trace, concurrency)
        self.passes: dict[int, list[int]] = {}

    def _prefill(self):
        chosen = super()._prefill()
        if chosen is not None:
            self.passes[self.cache.now] = [job.number for job in chosen.jobs]
        return chosen


def passes(server: Server, requests: int, concurrency: int, output: int) -> dict[int, list[int]]:
    watched = Watched(server, asks(range(requests), 90, 10, output), concurrency)
    watched.run()
    return watched.passes


def test_an_idle_scheduler_starts_with_the_first_and_then_takes_all() -> None:
    found = passes(Server(AMPLE), 9, 4, output=4)
    assert list(found.values()) == [[0], [1, 2, 3], [4], [5, 6, 7], [8]]


def test_the_request_after_an_answer_misses_the_pass_that_has_begun() -> None:
    # With overlap the answer of pass 1 goes out at the end of pass 2.
    assert passes(Server(AMPLE), 4, 2, output=1) == {1: [0], 2: [1], 4: [2], 5: [3]}
    no_overlap = Server(AMPLE, overlap=False)
    assert passes(no_overlap, 4, 2, output=1) == {1: [0], 2: [1], 3: [2], 4: [3]}


def test_what_waits_counts_as_used_now_and_then() -> None:
    class Touched(Engine):
        touches = 0

        def _touch_waiting(self) -> None:
            before = self._admissions
            super()._touch_waiting()
            self.touches += self._admissions - before

    engine = Touched(Server(300, chunk_tokens=16), asks([0, 1], 100), 2)
    engine.run()
    # The second waits while the first is computed; while the second is, nothing waits.
    assert 0 < engine.touches < engine.cache.now / 2


def test_what_waits_for_copies_to_end_goes_on_with_the_first_that_comes() -> None:
    """As an idle server does with ``--sleep-on-idle``: only a request wakes it."""
    copied = passes(Server(350, 1000), 9, 4, output=2)
    assert list(copied.values()) == [[0], [1, 2], [3, 4], [5], [6, 7], [8]]
    at_once = passes(Server(350), 9, 4, output=2)
    assert list(at_once.values()) == [[0], [1, 2], [3], [4, 5], [6], [7, 8]]


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"l1_tokens": 0},
        {"l1_tokens": 100, "page_size": 16},
        {"l1_tokens": 64, "l2_tokens": -1},
        {"l1_tokens": 64, "l2_tokens": 10, "page_size": 16},
        {"l1_tokens": 64, "write_policy": "sometimes"},
        {"l1_tokens": 64, "page_size": 16, "chunk_tokens": 8},
        {"l1_tokens": 64, "max_running": 0},
    ],
)
def test_a_server_that_cannot_be(options: dict) -> None:
    with pytest.raises(ValueError):
        Server(**options)


def test_requests_that_cannot_be() -> None:
    for wrong in ((0, 0, 1), (10, -1, 1), (10, 1, 0)):
        with pytest.raises(ValueError):
            Ask(0, *wrong)
    with pytest.raises(ValueError):
        Served(10, 6, 5)
    with pytest.raises(ValueError):
        simulate(Server(AMPLE), asks([0]), 0)


# --- workloads -----------------------------------------------------------------------------------


def test_each_group_has_as_many_prompts_in_a_seeded_order() -> None:
    workload = Workload(5, 3, 100, 10, 5, 1, seed=4)
    order = group_order(workload)
    assert sorted(order) == sorted([*range(5)] * 3) and order != sorted(order)
    assert order == group_order(workload)
    assert [ask.group for ask in generated(workload)] == order


def test_zipf_prefers_the_first_groups() -> None:
    order = group_order(Workload(50, 40, 100, 10, 5, 1, seed=4), zipf=1.2)
    assert len(order) == 2000
    counts = [order.count(group) for group in range(50)]
    assert counts[0] > 2 * counts[2] > 4 * counts[20]
    with pytest.raises(ValueError):
        group_order(Workload(5, 3, 100, 10, 5, 1, seed=4), zipf=-1)
