"""Published ONNX files, where there are some beside the project: parameters and products are those published,
and those that the onnx package's own shape inference gives.

Usage: onnx_real.py FORELINE FOLDER, which has a folder onnx. Exit status 77, with the reason, where the package or the files are missing.
"""
import json
import os
import subprocess
import sys

try:
    import onnx
    from onnx import shape_inference
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

# Parameters, and millions of multiply-adds with half of the last digit that is published. torchvision's table of
# models: resnet50 25557032 and 4.09 G (stride in the second product of a block, as in this file; 3.8 G in He et al., CVPR 2016,
# is with it in the first), densenet121 7978856 and 2.83 G, squeezenet1_1 1235496 and 0.35 G. The ShuffleNet file has
# widths (136, 272, 544 channels, 4 groups) for which nothing is published.
PUBLISHED = {
    "onnx_light_resnet50.onnx": (25557032, 4090, 5),
    "onnx_light_densenet121.onnx": (7978856, 2830, 5),
    "onnx_light_squeezenet.onnx": (1235496, 350, 5),
}
PRODUCTS = ("linear", "convolution", "attention", "matmul")


def shapes(model):
    known = {}
    graph = model.graph
    for v in list(graph.value_info) + list(graph.input) + list(graph.output):
        known[v.name] = [d.dim_value for d in v.type.tensor_type.shape.dim]
    for t in graph.initializer:
        known[t.name] = list(t.dims)
    return known


def product(numbers):
    out = 1
    for n in numbers:
        out *= n
    return out


def count(path):
    """FLOP of products of a sample."""
    model = shape_inference.infer_shapes(onnx.load(path), data_prop=True)
    known, flop = shapes(model), 0
    for n in model.graph.node:
        if n.op_type == "Conv":
            flop += 2 * product(known[n.output[0]]) * product(known[n.input[1]][1:])
        elif n.op_type in ("Gemm", "MatMul"):
            flop += 2 * product(known[n.output[0]]) * known[n.input[0]][-1]
    given = [i for i in model.graph.input if i.name not in {t.name for t in model.graph.initializer}]
    return flop / known[given[0].name][0]


def main():
    foreline, folder = sys.argv[1], os.path.join(sys.argv[2], "onnx")
    files = sorted(f for f in os.listdir(folder) if f.endswith(".onnx")) if os.path.isdir(folder) else []
    if not files:
        print("skipped: no ONNX files in " + folder)
        sys.exit(77)
    for name in files:
        path = os.path.join(folder, name)
        size = ":seq=32" if "dynamic" in name else ""
        shown = subprocess.run([foreline, "model", "show", "--json", path + size], capture_output=True, text=True)
        assert shown.returncode == 0, shown.stderr
        model = json.loads(shown.stdout)
        flop = sum(o["forward_flop"] for o in model["ops"] if o["kind"] in PRODUCTS)
        print(f"{name}: {len(model['ops'])} ops, {model['parameters']} parameters, {flop / 2e6:.3f} M multiply-adds")
        if not size and "dynbatch" not in name:
            assert flop == count(path), (name, flop, count(path))
        if name in PUBLISHED:
            parameters, millions, digits = PUBLISHED[name]
            assert model["parameters"] == parameters, name
            assert abs(flop / 2e6 - millions) <= digits, (name, flop)


main()
