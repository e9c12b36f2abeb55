"""Models of torch, exported as ONNX and read by foreline, have the parameters and products that torch says.

Usage: onnx_random.py FORELINE. Random networks from seeds; parameters are those of the module, products are
counted where torch dispatches them. Exit status 77, with the reason, where torch is not installed.
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings

import networks  # first: it says what is missing
import torch

try:
    import onnx  # noqa: F401, torch.onnx needs it in part
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

warnings.simplefilter("ignore")
PRODUCTS = ("linear", "convolution", "attention", "matmul")


def read(foreline, spec):
    shown = subprocess.run([foreline, "model", "show", "--json", spec], capture_output=True, text=True)
    if shown.returncode:
        raise AssertionError(f"{spec}: {shown.stderr}")
    return json.loads(shown.stdout)


def flop(model, kinds=None):
    return sum(op["forward_flop"] for op in model["ops"] if not kinds or op["kind"] in kinds)


def export(model, example, path, dynamic=False):
    model.train()
    torch.onnx.export(model, example, path, opset_version=13, do_constant_folding=False,
                      training=torch.onnx.TrainingMode.TRAINING, input_names=["x"],
                      dynamic_axes={"x": {0: "batch"} | ({1: "seq"} if example.dim() == 2 and
                                    not example.is_floating_point() else {})} if dynamic else None)


def compare(foreline, name, model, example, folder, dynamic):
    path = os.path.join(folder, "m.onnx")
    export(model, example, path, dynamic)
    counter = networks.Products()
    with torch.no_grad(), counter:
        model(example)
    open_size = ":seq=%d" % example.shape[1] if dynamic and not example.is_floating_point() else ""
    got = read(foreline, path + open_size)
    parameters = sum(p.numel() for p in model.parameters())
    products = counter.flop / example.shape[0]
    assert got["parameters"] == parameters, f"{name}: {got['parameters']} parameters, torch {parameters}"
    found = flop(got, PRODUCTS)
    assert found == products, f"{name}: products of {found} FLOP, torch {products}"
    return parameters


def against_the_zoo(foreline, folder):
    """gpt-tiny has the loss besides, which no export has."""
    zoo = read(foreline, "gpt-tiny")
    model = networks.Transformer(4, 128, 4, 512, 128, 256, True, True, networks.Tanh())
    path = os.path.join(folder, "gpt.onnx")
    export(model, torch.zeros(2, 128, dtype=torch.long), path)
    got = read(foreline, path)
    assert got["parameters"] == zoo["parameters"], (got["parameters"], zoo["parameters"])
    ratio = [sum(o[w] for o in got["ops"]) / sum(o[w] for o in zoo["ops"])
             for w in ("forward_flop", "backward_flop")]
    assert all(abs(r - 1) < .01 for r in ratio), ratio
    kinds = [[o["kind"] for o in m["ops"] if o["kind"] not in ("embedding", "positions", "loss")]
             for m in (got, zoo)]
    assert kinds[0] == kinds[1], kinds
    print(f"gpt-tiny: {got['parameters']} parameters, FLOP of zoo x {ratio[0]:.5f}, {ratio[1]:.5f}")


def main():
    foreline, total = sys.argv[1], 0
    kinds = (("images", networks.images, 20), ("perceptron", networks.perceptron, 8),
             ("transformer", networks.transformer, 16))
    with tempfile.TemporaryDirectory() as folder:
        against_the_zoo(foreline, folder)
        for name, make, n in kinds:
            for seed in range(n):
                torch.manual_seed(seed)
                draw = random.Random(f"{name} {seed}")
                model, example = make(draw)
                total += compare(foreline, f"{name} {seed}", model, example, folder, draw.random() < .5)
            print(f"{name}: {n} networks")
    assert total > 0


main()
