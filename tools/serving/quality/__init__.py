"""How a codec's L2 changes answers: the same prompts restored from it and from a raw L2.

======================  =====================================================================
module                  what lives there
======================  =====================================================================
``prompts``             prompts of which a prefix is restored, and tokens that push it out of L1
``facts``               what a server says about itself, and which two can be compared
``rounds``              how many prompts fit into the two caches at a time
``answers``             prompts served so that each prefix comes back from L2, with the proof
``measuring``           one server after another, the raw one once for all codecs
``servers``             servers that are started here, or that run already
``agreement``           the figures, with intervals
``document``            all of it as JSON
``output``              the table, and the page for the documentation
======================  =====================================================================
"""
