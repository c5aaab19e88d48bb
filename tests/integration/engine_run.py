"""Serve requests on SGLang's engine with a small L1, so that their prefixes come back from L2.

Run as a program, once for each codec, since an engine owns its process::

    python -m tests.integration.engine_run --model DIR --codec int8 --out result.json

For each of a few prefixes it records a request that finds its prefix in the device pool and, after
all prefixes went through a device pool that holds two of them, the same request restored from L2.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

PREFIXES, PREFIX_TOKENS, SUFFIX_TOKENS, NEW_TOKENS = 3, 400, 48, 4
SAMPLING = {"temperature": 0, "ignore_eos": True}


def documents(model: Path) -> list[list[int]]:
    """Stretches of the Python language reference, as token ids."""
    from pydoc_data import topics

    from transformers import AutoTokenizer

    text = "\n\n".join(topics.topics.values())
    ids = AutoTokenizer.from_pretrained(model)(text[:40_000])["input_ids"]
    length = PREFIX_TOKENS + SUFFIX_TOKENS
    return [ids[i * length : (i + 1) * length] for i in range(PREFIXES)]


def compute(engine: Any, ids: list[int]) -> None:
    """Have the engine compute and keep a prefix."""
    engine.generate(input_ids=ids, sampling_params=SAMPLING | {"max_new_tokens": 1})


def answer(engine: Any, ids: list[int]) -> dict[str, Any]:
    """Serve one prompt alone; with the logprobs of its suffix and of what it generates."""
    meta = engine.generate(
        input_ids=ids,
        sampling_params=SAMPLING | {"max_new_tokens": NEW_TOKENS},
        return_logprob=True,
        logprob_start_len=PREFIX_TOKENS,
    )["meta_info"]
    return {
        "output": [(token, logprob) for logprob, token, _ in meta["output_token_logprobs"]],
        # The first scored position has no logprob: it conditions on nothing that was scored.
        "input": [x[0] for x in meta["input_token_logprobs"] if x[0] is not None],
        "cached": meta["cached_tokens_details"],
    }


def flush(engine: Any) -> None:
    """Empty both tiers; SGLang refuses while a request is still being cleaned up."""
    for _ in range(100):
        if engine.flush_cache().success:
            return
        time.sleep(0.1)
    raise SystemExit("flush_cache was refused for ten seconds")


def counters() -> dict[str, float]:
    """What the engine's processes exported of HiCache, summed over labels."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.multiprocess import MultiProcessCollector

    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    found: dict[str, float] = {}
    for metric in registry.collect():
        for sample in metric.samples:
            of_hicache = "hicache" in sample.name or "load_back" in sample.name
            if of_hicache and "le" not in sample.labels:  # a histogram's buckets
                found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


def serve(model: Path, codec: str, ranks: int) -> dict[str, Any]:
    """Device-hit and L2-hit answers for each prefix, and the engine's counters."""
    import sglang
    import torch

    on_cpu = dict(device="cpu", attention_backend="torch_native", sampling_backend="pytorch")
    engine = sglang.Engine(
        **({} if torch.cuda.is_available() else on_cpu),
        model_path=str(model),
        tp_size=ranks,
        grammar_backend="none",
        max_total_tokens=1024,
        max_running_requests=2,
        mem_fraction_static=0.5,
        chunked_prefill_size=512,
        page_size=16,
        enable_hierarchical_cache=True,
        hicache_ratio=8.0,
        hicache_l2_codec=codec,
        enable_cache_report=True,
        enable_metrics=True,
        random_seed=1,
        log_level="warning",
    )
    prompts = documents(model)
    prefixes = [prompt[:PREFIX_TOKENS] for prompt in prompts]
    try:
        device_hits = []
        for prefix, prompt in zip(prefixes, prompts, strict=True):
            compute(engine, prefix)
            device_hits.append(answer(engine, prompt))
            flush(engine)
        for prefix in prefixes:
            compute(engine, prefix)
        host_hits = [answer(engine, prompt) for prompt in prompts]
        exported = counters()
    finally:
        engine.shutdown()
    answers = [{"device": d, "host": h} for d, h in zip(device_hits, host_hits, strict=True)]
    return {"answers": answers, "counters": exported}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--codec", required=True)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.write_text(json.dumps(serve(args.model, args.codec, args.ranks)))


if __name__ == "__main__":
    main()
