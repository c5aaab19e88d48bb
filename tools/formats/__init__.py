"""What is told of the formats: their bytes on a device, their capacity, what they go with.

======================  =====================================================================
module                  what lives there
======================  =====================================================================
``catalogue``           the formats of this package, without those that others add
``device``              the device that a user names, proven to work
``vectors``             fixed rows of KV, made of integers
``digests``             what a device makes of them: the whole of ``tools/conformance.py``
``models``              what models keep, by name or by ``config.json``
``capacity``            what host memory holds of a model, with each codec
``capacity_output``     that as a table and as JSON
``capacity_plot``       that as a plot
``compatibility``       ``docs/compatibility.md``
======================  =====================================================================
"""
