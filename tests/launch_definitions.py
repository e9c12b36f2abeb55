#!/usr/bin/env python3
"""The table of launch arguments beside the frameworks' own definitions: every row has the name, the
type, the choices and the default that the sources have.

Usage: launch_definitions.py [--print]
$FORELINE_MEGATRON_LM, $FORELINE_TORCHTITAN, $FORELINE_TORCHTITAN_TOML (0.2.2), $FORELINE_DEEPSPEED:
folders with their sources.
Megatron-LM's parser is built (megatron_arguments.py says what Python needs for it); the classes of
the others are read, not run. Skipped (77) where no folder is given. --print writes the rows that
the sources have, for a new version of the table."""
import argparse
import ast
import importlib.util
import os
import pathlib
import subprocess
import sys

import launch_table

CLASSES = {  # file, class and prefix of the arguments
    "torchtitan": (
        ("torchtitan/config/configs.py", "TrainingConfig", "training."),
        ("torchtitan/config/configs.py", "ParallelismConfig", "parallelism."),
        ("torchtitan/config/configs.py", "CompileConfig", "compile.")),
    "torchtitan_toml": tuple(
        ("torchtitan/config/job_config.py", name, prefix + ".") for name, prefix in (
            ("Model", "model"), ("Optimizer", "optimizer"), ("Training", "training"),
            ("Parallelism", "parallelism"), ("Compile", "compile"),
            ("ActivationCheckpoint", "activation_checkpoint"))),
    "deepspeed": (
        ("deepspeed/runtime/zero/config.py", "DeepSpeedZeroConfig", "zero_optimization."),
        ("deepspeed/runtime/zero/offload_config.py", "DeepSpeedZeroOffloadOptimizerConfig",
         "zero_optimization.offload_optimizer."),
        ("deepspeed/runtime/precision_config.py", "DeepSpeedBF16Config", "bf16."),
        ("deepspeed/runtime/precision_config.py", "DeepSpeedFP16Config", "fp16."),
        ("deepspeed/runtime/tensor_parallel/config.py", "TPTrainingConfig", "tensor_parallel.")),
}
ENUMS = {  # whose values a type's name stands for
    "ZeroStageEnum": ("int", "0,1,2,3"),
    "OffloadDeviceEnum": ("str", "none,cpu,nvme"),
}
SIMPLE = {"bool": "flag", "int": "int", "str": "str", "float": "float"}


def text_of(value):
    """None and lists as the table has them."""
    if value is None or value == []:
        return "-"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def type_of(node):
    """Type and choices of an annotation; of alternatives the first."""
    if isinstance(node, ast.BinOp):
        return type_of(node.left)
    if isinstance(node, ast.Subscript):
        name = node.value.id
        if name == "Literal":
            words = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return "str", ",".join(w.value for w in words)
        return type_of(node.slice) if name == "Optional" else ("list", "-")
    name = getattr(node, "id", "?")
    return ENUMS.get(name, (SIMPLE.get(name, "?"), "-"))


def number_of(node):
    """5e8 of pp_int(5e8) and of Field(pp_int(5e8), gt=0)."""
    if isinstance(node, ast.Call):
        named = [k.value for k in node.keywords if k.arg == "default"]
        inner = node.args[0] if node.args else named[0] if named else None
        value = number_of(inner) if inner is not None else None
        return int(value) if getattr(node.func, "id", "") == "pp_int" and value else value
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def fields(path, name):
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and item.value is not None:
                    yield item.target.id, *type_of(item.annotation), text_of(number_of(item.value))


def constants(path):
    """NAME = "argument" and NAME_DEFAULT = value: arguments of no class."""
    found = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            found[node.targets[0].id] = node.value.value
    for name, value in found.items():
        if isinstance(value, str) and name + "_DEFAULT" in found:
            yield value, "?", "-", text_of(found[name + "_DEFAULT"])
        elif name in ("OPTIMIZER", "TYPE"):
            yield value, "?", "-", "-"


def of_classes(framework, folder):
    rows = {}
    for file, name, prefix in CLASSES[framework]:
        for field, *row in fields(folder / file, name):
            rows[prefix + field] = tuple(row)
    if framework == "deepspeed":
        rows.update((name, tuple(row)) for name, *row in
                    constants(folder / "deepspeed/runtime/constants.py"))
        rows["optimizer.type"] = rows["optimizer"]
    if framework == "torchtitan":  # functions of the model's registry, and names of subcommands
        rows["module"] = rows["config"] = ("str", "-", "-")
        text = (folder / "torchtitan/distributed/activation_checkpoint.py").read_text("utf-8")
        for mode in ("selective", "full", "none"):
            if f'subcommand("{mode}")' in text:
                rows["activation-checkpoint:" + mode] = ("word", "-", "-")
    return rows


def of_megatron(folder):
    """In a process of its own, as its modules need stubs."""
    run = subprocess.run([sys.executable, __file__, "--megatron", folder], capture_output=True,
                         text=True, check=False)
    if run.returncode != 0:
        sys.exit(run.stderr)
    return {line.split("\t")[0]: tuple(line.split("\t")[1:]) for line in run.stdout.splitlines()}


def print_megatron(folder):
    import megatron_arguments
    module = megatron_arguments.load(folder)
    parser = argparse.ArgumentParser(allow_abbrev=False)
    module.add_megatron_arguments(parser)
    for action in parser._actions:
        kind = getattr(action.type, "__name__", "str")
        kind = "flag" if action.nargs == 0 else "list" if action.nargs == "+" else kind
        choices = [getattr(c, "name", c) for c in action.choices or []]
        default = getattr(action.default, "name", action.default)
        for name in action.option_strings:
            if name.startswith("--"):
                words = ",".join(map(str, choices)) or "-"
                print(name[2:], kind, words, text_of(default), sep="\t")


def real(framework, folder):
    return of_megatron(folder) if framework == "megatron" else of_classes(framework,
                                                                          pathlib.Path(folder))


def differs(row, found):
    """What the sources say else; types that they leave open are the table's own."""
    for what, here, there in zip(("type", "choices", "default"), row, found):
        known = (found[0] != "?" or what == "default") and not (
            what == "type" and there not in launch_table.TYPES)
        if known and here != there:
            return f"{what} {here}, the sources have {there}"
    return None


def main(printing):
    table, checked, wrong = launch_table.read(), 0, []
    for framework, arguments in table.items():
        folder = os.environ.get(launch_table.VARIABLE[framework], "")
        if not folder:
            variable = launch_table.VARIABLE[framework]
            print(f"{framework}: not compared, as {variable} names no sources")
            continue
        if framework == "megatron" and not importlib.util.find_spec("pydantic"):
            print("megatron: not compared, as Python has no pydantic")
            continue
        definitions = real(framework, folder)
        for name, row in arguments.items():
            if name not in definitions:
                wrong.append(f"{framework} {name}: the sources have no such argument")
            elif printing:
                print(framework, name, *definitions[name], sep="\t")
            elif differs(row, definitions[name]):
                wrong.append(f"{framework} {name}: {differs(row, definitions[name])}")
            checked += 1
    print("\n".join(wrong))
    print(f"{checked} arguments compared, {len(wrong)} differ")
    return 1 if wrong else 0 if checked else 77


if __name__ == "__main__":
    if sys.argv[1:2] == ["--megatron"]:
        print_megatron(sys.argv[2])
    else:
        sys.exit(main(sys.argv[1:] == ["--print"]))
