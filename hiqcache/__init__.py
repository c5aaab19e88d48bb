"""HiQCache: compressed host (L2) KV cache for SGLang's HiCache.

========================  =====================================================
module                    what lives there
========================  =====================================================
``hiqcache.geometry``     the shape of one rank's KV cache, and its raw bytes
``hiqcache.capacity``     bytes per token to tokens, by SGLang's own sizing rule
``hiqcache.codecs``       the codecs, one a file, and their registry
``hiqcache.staging``      encode, move, decode through persistent device buffers
``hiqcache.transfers``    a device pool's buffers to the transfer that serves them
``hiqcache.metrics``      what a codec costs, for Prometheus
``hiqcache.refusals``     what an encoded L2 cannot be combined with
``hiqcache.fidelity``     what a codec does to values: the INT8 error bound
========================  =====================================================

The library works on plain tensors and never imports SGLang.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("hiqcache")
except PackageNotFoundError:  # a source tree on sys.path
    __version__ = "0+unknown"
