#!/usr/bin/env python3
"""Plans that are drawn at random, exported, and given to Megatron-LM's own parse_args() and
validate_args(): each script is accepted, and one without its environment or with a misspelt
argument is not. No PyTorch is needed: modules that are absent are stubs.

Usage: megatron_arguments.py FORELINE PLANS; $FORELINE_MEGATRON_LM: a checkout of Megatron-LM, with
the Python packages packaging, numpy, pyyaml, pydantic, einops and typing_extensions. Skipped (77)
without."""
import importlib.abc
import importlib.machinery
import importlib.util
import os
import random
import re
import subprocess
import sys
import tempfile
import types
import typing

NEEDED = ("packaging", "numpy", "yaml", "pydantic", "einops", "typing_extensions")
ARITHMETIC = ("mul", "rmul", "add", "radd", "sub", "rsub", "truediv", "floordiv", "mod", "pow")


def permissive(names):
    """Methods of what may be called, divided, compared and iterated over without meaning it."""
    methods = {f"__{name}__": lambda *_: 1 for name in ARITHMETIC + ("int", "index", "neg")}
    methods.update({f"__{name}__": lambda *_: True for name in ("gt", "ge", "le")})
    methods.update(__lt__=lambda *_: False, __iter__=lambda _: iter(()),
                   __getitem__=lambda self, _: self, __or__=lambda self, _: self,
                   __ror__=lambda self, _: self, __float__=lambda _: 1.0, __hash__=lambda self: id(self),
                   __eq__=lambda self, other: self is other)
    return {name: method for name, method in methods.items() if name not in names}


class StubClass(type(typing.Protocol)):
    """A class for every name of an absent module: it can be derived from, called and decorate."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = StubClass(name, (Stub,), {})
        setattr(cls, name, found)
        return found

    def __call__(cls, *arguments, **named):
        alone = len(arguments) == 1 and not named
        if alone and callable(arguments[0]) and not isinstance(arguments[0], StubClass):
            return arguments[0]  # it decorates
        made = object.__new__(cls)
        if "__init__" in cls.__dict__:
            cls.__init__(made, *arguments, **named)
        return made


class Stub:
    def __init__(self, *_, **__):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return StubClass(name, (Stub,), {})

    def __call__(self, *arguments, **named):
        alone = len(arguments) == 1 and not named and callable(arguments[0])
        return arguments[0] if alone else Stub()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


for kind in (StubClass, Stub):
    for method, does in permissive(kind.__dict__).items():
        setattr(kind, method, does)
Stub = StubClass("Stub", (Stub,), {})


class StubModule(types.ModuleType):
    def __getattr__(self, name):
        if name == "__version__":
            return "9.9.9"
        if name.startswith("__"):
            raise AttributeError(name)
        found = StubClass(name, (Stub,), {})
        setattr(self, name, found)
        return found


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes last: finds what nobody else has, but for Megatron's own modules and for what Python
    itself may lack."""

    def find_spec(self, name, path=None, target=None):
        top = name.split(".")[0]
        if top in ("megatron",) + NEEDED or top in sys.stdlib_module_names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = StubModule(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module):
        pass


def load(checkout):
    """megatron.training.arguments of the checkout, for the rest of this process."""
    import typing_extensions
    typing.override = typing_extensions.override  # Python 3.12's
    sys.path[0] = checkout  # not where this file is, which has a folder torch/
    sys.meta_path.append(Absent())
    from megatron.training import arguments as megatron
    megatron.get_device_arch_version = lambda: 9
    megatron.is_te_min_version = megatron.is_torch_min_version = lambda *_, **__: True
    return megatron


def check(checkout, script):
    """In a process of its own: the arguments that the script gives to pretrain_gpt.py."""
    show = ('torchrun() { while [ "$1" != pretrain_gpt.py ]; do shift; done; printf "%s\\n" "$@"; '
            'echo "MAX ${CUDA_DEVICE_MAX_CONNECTIONS-}"; }; NODE_RANK=0; MASTER_ADDR=a; . "$0"')
    said = subprocess.run(["bash", "-c", show, script], capture_output=True, text=True, check=True)
    *arguments, connections = said.stdout.rstrip("\n").split("\n")
    text = open(script, encoding="utf-8").read()
    sizes = [re.search(rf"--{name} (\d+)", text) for name in ("nnodes", "nproc_per_node")]
    world = 1
    for size in sizes:
        world *= int(size.group(1)) if size else 1
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    if connections[4:]:
        os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = connections[4:]
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(world))
    megatron = load(checkout)
    sys.argv = arguments + ["--train-iters", "10", "--lr", "1e-4", "--mock-data",
                            "--tokenizer-type", "NullTokenizer"]
    megatron.validate_args(megatron.parse_args())
    print("accepted")


MODELS = ("llama3-8b", "gpt3-13b", "llama3-70b:layers=16", "mixtral-8x7b:layers=8,tokens=4096",
          "qwen3-8b", "gpt2-xl", "qwen2.5-7b", "mixtral-8x22b:layers=8")
CHOICES = ("", "--tensor-parallel 2", "--tensor-parallel 4", "--stages 4", "--stages 8 --chunks 2",
           "--zero 3", "--zero 1", "--zero 2", "--recompute full", "--recompute selective",
           "--recompute selective --recompute-modules layernorm", "--context-parallel 2")


SPOILT = (("export CUDA_DEVICE_MAX_CONNECTIONS=1\n", ""), ("--num-layers", "--nun-layers"))


def draw(dice):
    gpu = dice.choice(("H100", "A100", "B200"))
    return (f"--model {dice.choice(MODELS)} --framework megatron --finalists 1 "
            f"--platform rail:nodes={dice.choice((1, 2, 4, 8))},gpus=8,type={gpu} "
            f"--batch {dice.choice((32, 64, 128))} {dice.choice(CHOICES)}").split()


def accepts(checkout, script):
    """Its last line: "accepted", or why not."""
    run = subprocess.run([sys.executable, __file__, "--check", checkout, script],
                         capture_output=True, text=True, check=False)
    return (run.stderr + run.stdout).strip().split("\n")[-1]


def main(foreline, plans):
    checkout = os.environ.get("FORELINE_MEGATRON_LM", "")
    absent = [name for name in NEEDED if not importlib.util.find_spec(name)]
    if not os.path.isdir(os.path.join(checkout, "megatron", "training")) or absent:
        print("skipped: FORELINE_MEGATRON_LM names no checkout of Megatron-LM"
              if not absent else f"skipped: Python has no {', '.join(absent)}")
        return 77
    dice, accepted, refused, sharded = random.Random(20261129), 0, [], None
    folder = tempfile.mkdtemp()
    plan, script = os.path.join(folder, "plan.json"), os.path.join(folder, "run.sh")
    while accepted + len(refused) < plans:
        options = draw(dice)
        if subprocess.run([foreline, "plan", *options, "-o", plan], capture_output=True,
                          check=False).returncode != 0:
            continue  # nothing of that shape fits
        export = subprocess.run([foreline, "plan", "export", plan, "--to", "megatron", "-o", script],
                                capture_output=True, text=True, check=False)
        last = accepts(checkout, script) if export.returncode == 0 else export.stderr.strip()
        accepted += last == "accepted"
        if last != "accepted":
            refused.append(" ".join(options) + ": " + last)
        elif "CONNECTIONS=1\n" in open(script, encoding="utf-8").read():
            sharded = open(script, encoding="utf-8").read()
    print("\n".join(refused))
    print(f"Megatron-LM accepts {accepted} of {plans} plans")
    for spoilt in SPOILT if sharded else ():
        with open(script, "w", encoding="utf-8") as out:
            out.write(sharded.replace(*spoilt))
        if accepts(checkout, script) == "accepted":
            refused.append(f"{spoilt[0]} is not missed")
    return 1 if refused else 0


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        check(*sys.argv[2:])
    else:
        sys.exit(main(sys.argv[1], int(sys.argv[2])))
