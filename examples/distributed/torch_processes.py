"""PyTorch's `DistributedDataParallel` around a model, in two processes.

```shell
KERAS_BACKEND=torch python examples/distributed/torch_processes.py
```

starts both on this machine, on CPUs (gloo). With `torchrun`, which sets the
same environment variables on one or several machines, also set `PROCESS` to
`RANK`, and use `nccl` for GPUs.

On PyTorch, Keras' `fit` does not support several processes, so the training
loop is plain PyTorch. `--processes 1` has the same losses.
"""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import common


def environment(i, ports):
    return {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(ports[0]),
        "RANK": str(i),
        "WORLD_SIZE": str(len(ports)),
    }


def train(options, process, number):
    import torch

    torch.set_num_threads(1)
    if number > 1:
        torch.distributed.init_process_group("gloo")
    model = common.classifier()
    parallel = model
    if number > 1:
        # The gradients of all processes are averaged in `backward`.
        parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(parallel.parameters(), lr=1e-3)
    inputs, labels = common.data()
    losses = []
    for _ in range(options.epochs):
        total = 0.0
        for start in range(0, common.EXAMPLES, common.BATCH_SIZE):
            # Of each batch every process has its own examples.
            own = slice(start + process, start + common.BATCH_SIZE, number)
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
            if number > 1:
                torch.distributed.all_reduce(found)
            total += found.item() / number
        losses.append(total / (common.EXAMPLES // common.BATCH_SIZE))
    if process == 0:
        common.report(losses, options.results)
    if number > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--results", help="JSON file for the losses")
    options = parser.parse_args()
    process = common.process_number()
    if process is None and options.processes > 1:
        common.launch(options.processes, environment)
    else:
        train(options, process or 0, options.processes)
