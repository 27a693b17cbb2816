# The file should have the outputs of the module. PyTorch's ONNX exporter leaves
# out the addition of a number below 1e-8, so that 0 / 0 is NaN.
# PyTorch 2.13.0, onnxscript 0.7.2, onnxruntime 1.31.1.
import onnxruntime
import torch


class Share(torch.nn.Module):
    def forward(self, x):
        return x / (x.sum() + 1e-9)


x = torch.zeros(2)
program = torch.onnx.export(Share(), (x,), dynamo=True, verbose=False)
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
(found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
assert (found == 0).all(), f"{found}, not zeros"
