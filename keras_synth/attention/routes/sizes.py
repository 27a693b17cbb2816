"""Sizes of the parts of a route's work, in entries or rows.

Routes read them from this module in each call, so that tests can change them.
"""

# Weights that are worth a loop where loops are slow.
SLOW_LOOP = 2**23
# Weights of a tile: 2 MiB of float32 and their results fit into a CPU's cache.
TILE = 2**19
# Rows of a tile with a causal mask or shared by devices. Fewer rows would be
# many small products.
FEWEST_ROWS = 64
# Bands of rows with a causal mask, each over the columns that its last row
# sees.
CAUSAL_BANDS = 4
# Tables that CPUs compute head by head: 128 MiB of float32.
LARGE_TABLE = 2**25
# Logits `(B, H, T, S)` that are small for an accelerator on which Python
# launches each operation.
SMALL = 2**25
