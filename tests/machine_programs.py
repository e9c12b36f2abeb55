#!/usr/bin/python3
"""Programs of tools/ that read machines, given files with something wrong in them: each answers with a machine that
foreline takes, or says in one line what is wrong and where; none fails otherwise. From a seed.
Usage: machine_programs.py TOOLS CHECK CORPUS [INPUTS]; CHECK reads machines in JSON, a line each."""
import importlib
import json
import random
import subprocess
import sys

TOOLS, CHECK, CORPUS = sys.argv[1:4]
INPUTS = int(sys.argv[4]) if len(sys.argv) > 4 else 250
sys.dont_write_bytecode = True
sys.path.insert(0, TOOLS)
import machine  # noqa: E402

GPUS = [["A100", 312e12, 80 << 30], ["H100", 990e12, 80 << 30]]
WORDS = ["", "0", "1", "-1", "7", "65537", "1e400", "0x10", "1.5", "nan", "a[1-3]", "a[3-1]", "a[1-999999]", "[1-2]", "[",
         "Ring", "Switch", "xpu", "nic", "cpu", "nvl0", "400Gbps", "1us", "1" * 300, "\u00e9", "\n", "a.0.b.c.0",
         "server.0.nic.0.eth.leaf.0.port.0", "H100"]
VALUES = WORDS + [None, True, 0, -1, 3, 1 << 62, 0.5, 1e300, [], {}, [[]], ["a", "b"], {"a": "b"}]


def yaml(value, line=1):
    """What a program is given for YAML: every value with a line."""
    if isinstance(value, dict):
        value = {k: yaml(v, line + i) for i, (k, v) in enumerate(value.items())}
    elif isinstance(value, list):
        value = [yaml(v, line + i) for i, v in enumerate(value)]
    return [line, value if isinstance(value, (dict, list)) else str(value)]


def corpus(name):
    with open("%s/%s" % (CORPUS, name), encoding="utf-8") as f:
        return f.read()


BOX = {"name": "box", "components": [{"name": "xpu", "type": "xpu", "count": 4, "description": "H100"},
                                     {"name": "cpu", "type": "cpu", "count": 1}, {"name": "nic", "type": "nic"},
                                     {"name": "nvlsw", "type": "custom", "count": 1}],
       "links": [{"name": "nvlink", "bandwidth": {"gigabytes_per_second": 25}}, {"name": "pcie"}],
       "connections": ["xpu.0.nvlink.nvlsw.0", "xpu.1.nvlink.nvlsw.0", "nic.0.pcie.cpu.0", "xpu.2.pcie.cpu.0"]}
SEEDS = {
    "topograph": {"switches": {"core": {"switches": ["leaf[1-2]"]}, "leaf1": {}},
                  "blocks": [{"switch": "leaf1", "nodes": ["n[01-04]", "x"]},
                             {"switch": "leaf2", "nodes": ["m[1-2]y[3,4]"], "annotations": {"nvl-domain": "d"}}]},
    "infragraph": {"infrastructure": {"devices": [BOX, {"name": "leaf", "components": [{"name": "port", "type": "port"}]}],
                                      "instances": [{"name": "server", "device": "box"}, {"name": "leaf", "device": "leaf"}],
                                      "links": [{"name": "eth", "bandwidth": {"gigabits_per_second": 400}}],
                                      "connections": ["server.0.nic.0.eth.leaf.0.port.0", "server.1.nic.0.eth.leaf.0.port.1"]}},
    "analytical": {"topology": ["Ring", "FullyConnected", "Switch"], "npus_count": [4, 2, 3], "bandwidth": [50.0, 25.0, 12.5],
                   "latency": [500.0, 700, 0]},
    "netq": json.loads(corpus("netq.json")),
    "calculon": json.loads(corpus("calculon.json")),
    "ns3": corpus("ns3.txt"),
}


def mutate_text(text, r):
    lines = [line.split(" ") for line in text.split("\n")]
    for _ in range(r.choice([0, 1, 1, 2, 4])):
        line = r.choice(lines)
        what = r.randrange(4)
        if what == 0:
            line[r.randrange(len(line))] = r.choice(WORDS)
        elif what == 1:
            lines.insert(r.randrange(len(lines)), list(line))
        elif what == 2 and len(lines) > 1:
            lines.remove(line)
        else:
            line.append(r.choice(WORDS))
    return "\n".join(" ".join(line) for line in lines)


def places(value):
    """All places of a tree where something else may stand: container and key."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, v in inside:
        yield value, key
        yield from places(v)


def mutate_tree(tree, r):
    tree = json.loads(json.dumps(tree))
    for _ in range(r.choice([0, 1, 1, 1, 2, 4])):
        at, key = r.choice(list(places({"": tree}))[1:] or [({}, None)])
        what = r.randrange(4)
        if key is None:
            break
        if what == 0:
            del at[key]
        elif what == 1 and isinstance(at, list):
            at.insert(key, json.loads(json.dumps(r.choice(at))))
        elif what == 2:
            at[key] = json.loads(json.dumps(r.choice(list(places(tree)))[0])) if r.random() < 0.3 else r.choice(WORDS)
        else:
            at[key] = r.choice(VALUES)
    return tree


def check_error(error, name, data):
    assert set(error) <= {"text", "line", "at"} and error["text"] and "\n" not in error["text"].replace("\\n", ""), error
    value = json.loads(data) if "at" in error else None
    for step in error.get("at", ()):  # which foreline follows to the line
        value = value[step]
    assert error.get("line", 0) >= 0


def main():
    machines, failed = [], 0
    for name, seed in SEEDS.items():
        program, r, good, bad = importlib.import_module(name), random.Random(name), 0, 0
        is_yaml = name in ("topograph", "infragraph", "analytical")
        for _ in range(INPUTS):
            if isinstance(seed, str):
                data = mutate_text(seed, r).encode()
            else:
                tree = mutate_tree(seed, r)
                data = json.dumps(yaml(tree) if is_yaml else tree).encode()
            answer = machine.answer(program.read, data, GPUS)
            if "error" in answer:
                bad += 1
                answer["error"]["text"] = answer["error"]["text"].replace("\n", " ")  # as foreline does
                check_error(answer["error"], name, data)
            else:
                good += 1
                machines.append(json.dumps(answer))
        print("%s: %d machines, %d refused" % (name, good, bad))
        failed |= good < INPUTS // 10 or bad < INPUTS // 10  # else the mutations test nothing
    said = subprocess.run([CHECK], input="\n".join(machines), text=True, stdout=subprocess.PIPE, check=False)
    print(said.stdout, end="")
    return failed or said.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
