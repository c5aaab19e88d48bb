"""Whether a machine is ready to serve with a codec: the whole of ``tools/preflight.py``.

======================  =====================================================================
module                  what lives there
======================  =====================================================================
``finding``             what a check says: pass, fail or skip, and the next step
``asked``               the model, codec, ranks and budget that are to be served
``fit``                 whether the codec serves the model, its rows, what the budget holds
``memory``              host memory, by the rule that SGLang's host pools refuse by
``cgroup``              what the control groups leave of it
``pinning``             whether host memory can be pinned; ``/dev/shm``
``driver``              what ``nvidia-smi`` says, and the driver that torch's CUDA needs
``devices``             what torch sees of the GPUs
``compilers``           what SGLang compiles its kernels with when a server starts
``installed``           SGLang, its patches, hiqcache, and the versions that SGLang requires
``conformance``         the codec's bytes on this device, against the committed ones
``pool``                SGLang's mover and host pool, in a process of their own
``pool_process``        that process; the only module that imports SGLang
``checks``              all of the checks, in order
======================  =====================================================================

What is read from the machine and what is made of it are apart, so that a test can answer for a
machine that is not there.
"""
