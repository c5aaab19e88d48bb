"""Experiments on a real SGLang server: start it, send it a workload, read its figures.

======================  =====================================================================
module                  what lives there
======================  =====================================================================
``workload``            the prompts, and whether they tell the L2s apart
``text``                the tokens that prompts are made of
``model``               the model that is served, and the KV that it keeps
``l2``                  host caches, and two of them with the same bytes
``launch``              the command line and environment of a server
``server``              start, wait, stop: no process is left behind
``client``              requests, and what a reply says about the cache
``metrics``             SGLang's counters
``pool_report``         the host pool's own figures, which a plug-in in ``plugin`` writes
``experiment``          one run: a server, the workload, the figures
``comparison``          three runs: no L2, a raw one, an encoded one as large
``results``             what the runs add up to
``output``              the table and the JSON
``progress``            what is told meanwhile
``delivery``            where a result goes
``printing``            tables on standard output
``quality``             another experiment: what restores do to answers
``environment``         the versions and the machine of a run
======================  =====================================================================

Only the plug-in imports SGLang, inside the server.
"""
