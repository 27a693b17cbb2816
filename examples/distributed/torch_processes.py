"""PyTorch's `DistributedDataParallel` around a model, in two processes.

```shell
KERAS_BACKEND=torch torchrun --nproc-per-node 2 \\
    examples/distributed/torch_processes.py
```

starts both on this machine, on CPUs (gloo). For several machines, see
`torchrun --help`. For GPUs, use `nccl`. `python` instead of `torchrun` starts
one process, which has the same losses.

On PyTorch, Keras' `fit` does not support several processes, so the training
loop is plain PyTorch.
"""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import common
import torch

PROCESSES = int(os.environ.get("WORLD_SIZE", 1))  # set by torchrun
PROCESS = int(os.environ.get("RANK", 0))

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--results", help="JSON file for the losses")
    options = parser.parse_args()

    torch.set_num_threads(1)
    if PROCESSES > 1:
        torch.distributed.init_process_group("gloo")
    model = common.classifier()
    parallel = model
    if PROCESSES > 1:
        # The gradients of all processes are averaged in `backward`.
        parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(parallel.parameters(), lr=1e-3)
    inputs, labels = common.data()
    losses = []
    for _ in range(options.epochs):
        total = 0.0
        for start in range(0, common.EXAMPLES, common.BATCH_SIZE):
            # Of each batch every process has its own examples.
            own = slice(start + PROCESS, start + common.BATCH_SIZE, PROCESSES)
            batch = {
                name: torch.from_numpy(x[own]) for name, x in inputs.items()
            }
            target = torch.from_numpy(labels[own]).long()
            optimizer.zero_grad()
            logits = parallel(batch, training=True)
            loss = torch.nn.functional.cross_entropy(logits, target)
            loss.backward()
            optimizer.step()
            found = loss.detach()
            if PROCESSES > 1:
                torch.distributed.all_reduce(found)
            total += found.item() / PROCESSES
        losses.append(total / (common.EXAMPLES // common.BATCH_SIZE))
    if PROCESS == 0:
        common.report(losses, options.results)
    if PROCESSES > 1:
        torch.distributed.destroy_process_group()
