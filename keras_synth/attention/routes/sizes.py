"""Sizes by which routes cut their work, numbers of entries or of rows.

Routes read them from this module at each call, so that tests can set others.
"""

# Weights of a tile: 2 MiB of float32 fit into a CPU's cache with what is
# computed of them.
TILE = 2**19
# Rows of a tile along which a causal mask forbids columns, or which devices
# share: fewer would be many small products.
FEWEST_ROWS = 64
# Bands of rows under a causal mask, each over the columns that its last row
# sees.
CAUSAL_BANDS = 4
# A table that is computed head by head on CPUs: 128 MiB of float32.
LARGE_TABLE = 2**25
# Logits `(B, H, T, S)` that are small for an accelerator where Python launches
# each operation.
SMALL = 2**25
