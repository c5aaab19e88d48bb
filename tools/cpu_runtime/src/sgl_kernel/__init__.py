"""A stand-in for SGLang's kernel package on machines without a GPU.

With ``SGLANG_USE_CPU_ENGINE=1`` SGLang imports the names below as its modules load. The real
package has no CPU build that can be installed from an index, and serving a dense model through
the ``torch_native`` attention backend calls just one of them, which is written in torch here. The
others belong to speculative decoding and to Intel AMX; called, they say so. No operator is
registered with torch, so SGLang finds no AMX support and keeps its plain torch layers.
"""

import torch

from ._missing import missing
from ._request_table import assign_req_to_token_pool_cpu

if torch.cuda.is_available():
    raise ImportError(
        "this sgl_kernel is the stand-in of hiqcache-cpu-runtime, but this machine has a CUDA "
        "device: uninstall hiqcache-cpu-runtime and install sglang-kernel"
    )

__version__ = "0.0.0+hiqcache.cpu"

# kernels/ops/kvcache/cache_move.py
copy_all_layer_kv_cache_cpu = missing("copy_all_layer_kv_cache_cpu")

# kernels/ops/speculative/, srt/speculative/
assign_draft_cache_locs_contiguous_cpu = missing("assign_draft_cache_locs_contiguous_cpu")
assign_extend_cache_locs_cpu = missing("assign_extend_cache_locs_cpu")
build_tree_kernel_efficient_cpu = missing("build_tree_kernel_efficient_cpu")
fill_accept_out_cache_loc_cpu = missing("fill_accept_out_cache_loc_cpu")
fill_bonus_tokens_cpu = missing("fill_bonus_tokens_cpu")
rotate_input_ids_cpu = missing("rotate_input_ids_cpu")
verify_tree_greedy_cpu = missing("verify_tree_greedy_cpu")

# srt/layers/attention/intel_amx_backend.py
build_draft_decode_metadata_cpu = missing("build_draft_decode_metadata_cpu")

__all__ = [
    "assign_draft_cache_locs_contiguous_cpu",
    "assign_extend_cache_locs_cpu",
    "assign_req_to_token_pool_cpu",
    "build_draft_decode_metadata_cpu",
    "build_tree_kernel_efficient_cpu",
    "copy_all_layer_kv_cache_cpu",
    "fill_accept_out_cache_loc_cpu",
    "fill_bonus_tokens_cpu",
    "rotate_input_ids_cpu",
    "verify_tree_greedy_cpu",
]
