"""What SGLang's cache would do with a trace: hits, restores and evictions, without an engine.

Every rule is SGLang 0.5.23's, and no constant is fitted. Time is not modelled: each scheduler pass
takes as long as any other.

======================  =====================================================================
module                  what lives there
======================  =====================================================================
``tokens``              a sequence as runs of tokens, however long
``trace``               requests in the order in which they are sent
``server``              what decides the rules: sizes, write policy, prefill limits
``node``                a node of the radix tree
``leaves``              what can be evicted, least recently used first
``tree``                match, insert, split and lock
``host``                L2: what is written to it, what makes room, what comes back
``cache``               both tiers, as the scheduler uses them
``job``                 a request under way
``admission``           which waiting requests a prefill pass takes
``engine``              the scheduler's passes and the closed loop of clients
``outcome``             what came of a run
``sizes``               tokens of host memory, with each format
``sweep``               a parameter varied, for each format
``validation``          runs of the real engine, told from their simulation
``output``, ``plot``    tables, JSON, drawings
======================  =====================================================================
"""
