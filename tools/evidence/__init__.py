"""Experiments on SGLang's server that are driven by its own serving benchmark.

======================  =====================================================================
module                  what lives there
======================  =====================================================================
``record``              one run as a file: what was set, what was measured, where
``random_model``        a small model of Qwen3's architecture, with random weights
``cases``               the experiments, by name: which servers serve which workload
``sizing``              the L2 of a server, by bytes or by tokens, and the proof that it has it
``bench``               SGLang's serving benchmark, run on a server
``provenance``          the revision, packages and machine behind a run
``watching``            how full a server's L2 is while it serves
``running``             one run after another, the configurations in turn
``expectation``         what an experiment should show, by simulation
``restore``             time to the first token, computed and restored, by length
======================  =====================================================================
"""
