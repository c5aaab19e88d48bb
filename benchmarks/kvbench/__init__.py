"""What the benchmarks of formats share: texts, a real model, formats, statistics, reports."""
