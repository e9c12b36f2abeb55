#!/usr/bin/env python3
"""Plans of many shapes are exported, and the framework's definitions (launch_arguments.tsv) accept
each argument: its name, how many values, type and choices. What is imported again is the same plan,
but for fields that the export or the import named, and is exported as the same file.

Usage: launch_arguments.py FORELINE PLANS   (so many of each framework)"""
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
import tomllib

import launch_table

MODELS = {  # and what shards may be
    "llama3-8b": 8, "llama3-70b": 8, "llama3-405b": 8, "gpt2-xl": 1, "gpt3-13b": 8, "gpt3-175b": 8,
    "mixtral-8x7b": 8, "mixtral-8x22b": 8, "qwen3-32b": 8, "qwen2.5-7b": 4, "qwen3-30b-a3b": 4,
    "deepseek-v2-lite": 8, "deepseek-v3": 8, "mistral-7b": 8, "gpt-oss-20b": 8,
}
SINGLE = ("gpt2-xl",)  # in fp32
EXPERTS = ("mixtral", "a3b", "deepseek", "oss")
ENDS = {"megatron": ".sh", "torchtitan": ".sh", "torchtitan_toml": ".toml", "deepspeed": ".json"}
LAUNCHED = {"megatron": "megatron", "torchtitan": "compiled", "torchtitan_toml": "compiled",
            "deepspeed": "deepspeed"}
# what a file of arguments is not asked for
OTHER = {"provenance", "algorithm", "objective_s", "model_sha256", "platform_sha256", "seed"}
# words by which a message means a field of the plan
NAMED = {"bucket_bytes": "bucket", "context_exchange": "context-exchange",
         "reduce_dtype": "sums of gradients", "recompute_modules": "recomputed modules",
         "expert_imbalance": "expert-imbalance", "p2p_scatter": "p2p-scatter",
         "recompute_layers": "recompute-layers", "recompute_unit": "recompute-unit",
         "framework": "times and memory of", "optimizer": "optimizer", "model": "the platform"}


def draw(dice, framework):
    """Options of a plan: the shape at random, and one or two things more."""
    model, gpus = dice.choice(list(MODELS)), 8 * dice.choice((1, 2, 4))
    shards = dice.choice([n for n in (1, 2, 4, 8) if n <= MODELS[model]])
    ranks = 1 if framework == "deepspeed" else dice.choice([n for n in (1, 2, 4) if
                                                            n * shards <= gpus])
    replicas = gpus // shards // ranks
    if framework.startswith("torchtitan") and ranks > 1 and replicas > 1:
        replicas = 1  # stages of a replica lie side by side, which its ranks cannot say
    options = ["--model", model, "--platform", f"rail:nodes={gpus // 8},gpus=8,type=H100",
               "--framework", LAUNCHED[framework], "--algorithm", "balanced",
               "--granularity", "layer", "--tp", str(shards), "--pp", str(ranks), "--dp", str(replicas),
               "--batch", str(64 * replicas), "--mbs", str(dice.choice((1, 2)))]
    more = [["--recompute", "full"], ["--recompute", "selective"], [], []]
    more += [["--offload", "optimizer"]] * (replicas == 1)
    if ranks > 1:
        more += [["--vp", "2"]]
    if shards > 1 and framework != "deepspeed":
        more += [["--sp"], ["--sp", "--tensor-overlap"]] * 2
    if replicas > 1:
        own = "bf16" if framework == "deepspeed" and model not in SINGLE else "fp32"
        other = "bf16" if own == "fp32" else "fp32"
        more += [["--zero", n] for n in "123"] + [["--reduce-dtype", other]]
        more += [["--zero", "1", "--bucket", "160MB"], ["--zero", "1", "--offload", "optimizer"],
                 ["--zero", "1", "--bucket", "40MB", "--zero-keep"], ["--cp", "2"]]
        more += [["--ep", str(min(replicas, 8))]] * 3 * any(word in model for word in EXPERTS)
    for extra in dice.sample(more, 2):
        options += extra if not extra or extra[0] not in options else []
    if framework.startswith("torchtitan") and shards > 1 and "--sp" not in options:
        options += ["--sp"]
    return options


def said(framework, path):
    """[(argument, values)] as the framework's own reader takes the file apart."""
    if framework == "deepspeed":
        with open(path, encoding="utf-8") as file:
            return flat(json.load(file))
    if framework == "torchtitan_toml":
        with open(path, "rb") as file:
            return flat(tomllib.load(file))
    show = ('torchrun() { while [ "$1" != pretrain_gpt.py ] && [ "$1" != -m ]; do shift; done; '
            '[ "$1" = pretrain_gpt.py ] || shift; shift; printf "%s\\n" "$@"; }; '
            'NODE_RANK=0; MASTER_ADDR=a; . "$0"')
    words = subprocess.run(["bash", "-c", show, path], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    found = []
    for word in words:
        if word.startswith("--"):
            section, _, key = word[2:].rpartition(".")
            off = section and key.startswith("no_")
            found.append((f"{section}.{key[3:]}" if off else word[2:], []))
        elif ":" in word and framework == "torchtitan":
            found.append((word, []))
        else:
            found[-1][1].append(word)
    return found


def flat(tree, path=""):
    found = []
    for key, value in tree.items():
        if isinstance(value, dict):
            found += flat(value, f"{path}{key}.")
        elif isinstance(value, bool):
            found.append((path + key, []))
        elif isinstance(value, list):
            found.append((path + key, value))
        else:
            found.append((path + key, [str(value)]))
    return found


def refused(table, framework, path):
    """Arguments that the framework does not take, and why."""
    found, wrong = said(framework, path), []
    names = [name for name, _ in found]
    for name, values in found:
        row = table[framework].get(name)
        why = launch_table.wrong(row, values) if row else "there is no such argument"
        why = "twice" if names.count(name) > 1 else why
        if why:
            wrong.append(f"{name}: {why}")
    return wrong if found else ["no arguments"]


def differences(one, other, path=""):
    """Names of members in which two plan files differ, but for those that are of no argument."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = (one.keys() | other.keys()) - (set() if path else OTHER)
        return set().union(*(differences(one.get(key), other.get(key), key) for key in keys))
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return set().union(*(differences(a, b, path) for a, b in zip(one, other)), set())
    return set() if one == other else {path}


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def body(path):
    """Without the title, which has the model's name as the plan has it."""
    with open(path, encoding="utf-8") as file:
        return [line for line in file if "by foreline plan export" not in line]


def there_and_back(foreline, framework, plan, options):
    """What is wrong with the import of what was exported."""
    script = plan + ENDS[framework]
    export = run(foreline, "plan", "export", plan, "--to", framework, "-o", script)
    again, once_more = plan + ".again", plan + ".again" + ENDS[framework]
    back = run(foreline, "plan", "import", script, "--model", options[1], "--platform", options[3],
               "-o", again)
    if back.returncode != 0:
        return [f"not imported: {back.stderr.strip()}"]
    with open(plan, encoding="utf-8") as one, open(again, encoding="utf-8") as other:
        fields = differences(json.load(one), json.load(other))
    wrong = [f"{field} differs, unsaid" for field in sorted(fields)
             if NAMED.get(field, field) not in export.stderr + back.stderr]
    repeated = run(foreline, "plan", "export", again, "--to", framework, "-o", once_more)
    if repeated.returncode != 0 or (body(script) != body(once_more) and not fields):
        wrong.append(f"exported otherwise the second time {repeated.stderr.strip()}")
    return wrong


def check(foreline, framework, plans, table):
    """How many plans it says, of at least so many; and what is wrong."""
    dice, done, cannot, wrong = random.Random(20261129), 0, collections.Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        while done < plans and cannot.total() < 20 * plans:
            options, plan = draw(dice, framework), os.path.join(folder, f"{done}.json")
            made = run(foreline, "plan", *options, "-o", plan)
            export = run(foreline, "plan", "export", plan, "--to", framework, "-o",
                         plan + ENDS[framework])
            if made.returncode != 0 or "cannot express" in export.stderr:
                cannot[(made if made.returncode else export).stderr.strip().splitlines()[-1]] += 1
                continue
            done += 1
            faults = ([f"not exported: {export.stderr}"] if export.returncode != 0 else
                      refused(table, framework, plan + ENDS[framework]) +
                      there_and_back(foreline, framework, plan, options))
            wrong += [f"{framework} {' '.join(options)}: {fault}" for fault in faults]
    version = launch_table.versions()[framework]
    print(f"{framework} {version}: {done} plans, {cannot.total()} others:")
    print("".join(f"{n:6} {why}\n" for why, n in cannot.most_common()), end="")
    return wrong + ([] if done == plans else [f"{framework}: too few plans"])


SPOILT = (("megatron", "num-layers", ["many"]), ("megatron", "recompute-method", ["all"]),
          ("torchtitan", "parallelism.tensor_parallel_degree", []),
          ("torchtitan", "compile.enable", ["true"]),
          ("deepspeed", "zero_optimization.stage", ["4"]))


def main(foreline, plans):
    table, wrong = launch_table.read(), []
    for framework in ENDS:
        wrong += check(foreline, framework, plans, table)
    wrong += [f"{framework} {name} {values} is not missed" for framework, name, values in SPOILT
              if not launch_table.wrong(table[framework][name], values)]
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
