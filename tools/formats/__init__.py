"""What is told of the formats: their bytes on a device, their capacity, what they go with.

======================  =====================================================================
module                  what lives there
======================  =====================================================================
``catalogue``           the formats of this package, without those that others add
``device``              the device that a user names, proven to work
``vectors``             fixed rows of KV, made of integers
``digests``             what a device makes of them: the whole of ``tools/conformance.py``
======================  =====================================================================
"""
