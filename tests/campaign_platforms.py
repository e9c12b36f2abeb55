#!/usr/bin/env python3
"""What a platform says of failures, spare nodes and storage is what options say, to the byte; checkpoints to its hosts take
what the links carry; nonsense is one line with the file's line. Usage: campaign_platforms.py FORELINE N."""
import csv
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile

foreline, n = os.path.realpath(sys.argv[1]), int(sys.argv[2])


def call(*words, fails=False):
    r = subprocess.run([foreline, *words], capture_output=True, text=True, timeout=300)
    if (r.returncode != 0) != fails:
        sys.exit(f"FAIL: {' '.join(words)}: {r.stdout}{r.stderr.strip()}")
    return r.stderr if fails else r.stdout


def plan(platform, output, replicas, microbatches=None):
    call("plan", "--model", "gpt2-small", "--platform", platform, "--algorithm", "balanced", "--stages", "1", "--replicas",
         str(replicas), "--microbatches", str(microbatches or replicas), "-o", output)


def with_stores(text, stores, bandwidth, value):
    """The platform with hosts at its first router."""
    router = re.search(r'<router id="([^"]*)"', text)[1]
    hosts = "".join(f'<host id="s{i}" speed="1Gf"><prop id="device" value="none"/>\n<prop id="storage" value="{value}"/></host>'
                    f'<link id="s{i}-nic" bandwidth="{bandwidth}Bps" latency="5us" sharing_policy="SPLITDUPLEX"/>\n'
                    for i in range(stores))
    routes = "".join(f'<route src="s{i}" dst="{router}"><link_ctn id="s{i}-nic" direction="UP"/></route>\n'
                     for i in range(stores))
    at = text.index("    <route")
    return text[:at] + hosts + text[at:].replace("  </zone>", routes + "  </zone>")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for seed in range(n):
        draw = random.Random(seed)
        nodes, gpus = draw.choice([2, 3, 4]), draw.choice([1, 2, 4])
        spec = f"{draw.choice(['rail', 'leaf-spine', 'fat-tree'])}:nodes={nodes},gpus={gpus},type=A100"
        said = ["--failures", f"llama3:scale={draw.uniform(50, 500):.3g},repair={draw.randrange(1, 48)}h,"
                f"detect={draw.randrange(1, 600)}s",
                "--spares", str(draw.randrange(4)),
                "--storage", draw.choice([f"shared:rate={draw.randrange(1, 50)}GBps", "disk:node=2GBps", "peer"])]
        rest = ["--tokens", "100G", "--seed", str(seed)]
        call("topology", "generate", spec, "-o", "bare.xml")
        call("topology", "generate", spec, *said, "-o", "said.xml")
        plan("bare.xml", "bare.json", nodes * gpus)
        plan("said.xml", "said.json", nodes * gpus)
        a, b = (call("campaign", *words, *rest) for words in (["said.json"], ["bare.json", *said]))
        if a != b or f" {said[3]} spare node" not in a:
            sys.exit(f"FAIL: seed {seed}: the platform's properties and options differ:\n{a}\n{b}")
        if " 7 spare nodes" not in call("campaign", "said.json", *rest, "--spares", "7"):
            sys.exit(f"FAIL: seed {seed}: an option does not override the platform")

        # A node less: the plan of fewer replicas, each of which takes as many microbatches of the batch as it must.
        batch, fewer = draw.randrange(nodes * gpus, 200), (nodes - 1) * gpus
        plan("bare.xml", "whole.json", nodes * gpus, batch)
        plan("bare.xml", "fewer.json", fewer, -(-batch // fewer) * fewer)
        shrink = json.loads(call("campaign", "whole.json", *rest, "--recovery", "shrink", "--failures", "none", "--json"))
        spares = json.loads(call("campaign", "whole.json", *rest, "--failures", "none", "--json"))
        alone = json.loads(call("simulate", "fewer.json", "--engine", "analytic", "--json"))["iteration_s"]
        alone = max(alone, shrink["iteration_s"])
        if abs(shrink["shrunk_s"] / alone - 1) > 1e-9 or shrink["p50_s"] != spares["p50_s"]:
            sys.exit(f"FAIL: seed {seed}: {shrink['shrunk_s']} s with a node less, {alone} s by a plan for it")

        # Hosts on links: all bytes over the stores' links, or the nodes' own, whichever is narrower.
        stores, bandwidth, rate = draw.choice([1, 2, 4]), draw.randrange(1, 100) * 1e6, draw.choice([0, 5e7])
        with open("hosts.xml", "w") as f:
            f.write(with_stores(open("bare.xml").read(), stores, bandwidth, "host" + (f":rate={rate}Bps" if rate else "")))
        plan("hosts.xml", "hosts.json", nodes * gpus)
        d = json.loads(call("campaign", "hosts.json", *rest, "--json"))
        expected = d["checkpoint_bytes"] / min(stores * bandwidth, rate or 1e30)
        if abs(d["drain_s"] / expected - 1) > 1e-6:
            sys.exit(f"FAIL: seed {seed}: a checkpoint takes {d['drain_s']} s, {expected} by hand")

        # A sweep over settings of campaigns has the days that campaign says of each.
        axes = {"every": ["5min", "2h"], "spares": ["0", "3"], "failures": ["llama3:scale=90", "none:node=300h"]}
        with open("e.yml", "w") as f:
            f.write("plan: bare.json\ntrain-tokens: 100G\n" + f"seed: {seed}\n" +
                    "".join(f"{k}: {json.dumps(v)}\n" for k, v in axes.items()))
        call("sweep", "e.yml", "-o", f"e{seed}.db", "--workers", "1")
        for row in csv.DictReader(io.StringIO(call("sweep", "e.yml", "-o", f"e{seed}.db", "--export", "csv"))):
            d = json.loads(call("campaign", "bare.json", *rest, "--json", *[w for k in axes for w in ("--" + k, row[k])]))
            if float(row["days"]) != d["p50_s"] / 86400 or float(row["effective"]) != d["effective"]:
                sys.exit(f"FAIL: seed {seed}: {row}, campaign says {d['p50_s'] / 86400} days")

        # Plans by days: the order of iterations where nothing fails and checkpoints cost nothing; each as campaign says of it;
        # and no plan that was left out could have needed fewer.
        search = ["plan", "--model", "gpt2-small", "--platform", spec, "--finalists", "3", "--time-limit", "1h", "--json",
                  "--seed", str(seed)]
        days = [*search, "--objective", "campaign", "--train-tokens", "100G"]
        quiet = json.loads(call(*search))["candidates"]
        free = json.loads(call(*days, "--failures", "none", "--storage", "shared:rate=1e9GBps,node=1e9GBps",
                               "--checkpoint-stop", "0s"))["candidates"]
        ranked = json.loads(call(*days, *said, "-o", "best.json"))["candidates"]
        first, least = ranked[0], [100e9 / (c["samples_per_s"] * 1024) for c in ranked]
        d = json.loads(call("campaign", "best.json", *rest, *said, "--iteration-time", f"{first['iteration_s']!r}s", "--json"))
        known = [c["training_s"] for c in ranked if "training_s" in c and c["fits"]]
        if [f"{c['iteration_s']:.7g}" for c in free] != [f"{c['iteration_s']:.7g}" for c in quiet] or known != sorted(known) or \
                abs(free[0]["training_s"] / (100e9 / (free[0]["samples_per_s"] * 1024)) - 1) > 1e-5 or \
                abs(d["p50_s"] / known[0] - 1) > (1e-9 if d["courses"] == 100 else 0.05) or \
                any("training_s" not in c and c["fits"] and s < known[0] for c, s in zip(ranked, least)):
            sys.exit(f"FAIL: seed {seed}: plans by days: {known}, campaign says {d['p50_s']}")

    base = open("said.xml").read().split("\n")
    line = next(i for i, text in enumerate(base) if 'id="failures"' in text)
    for name, value in [("failures", "llama3:gpu=-5h"), ("failures", "llama3:scale=-1"), ("failures", "llama3:repair=1e9h"),
                        ("failures", "llama9"), ("spares", "-1"), ("spares", "1e9"), ("storage", "shared:rate=0Bps"),
                        ("storage", "shared:rate=-1GBps"), ("storage", "host"), ("failures", "x" * 5000)]:
        with open("wrong.xml", "w") as f:
            f.write("\n".join(base[:line] + [f'<prop id="{name}" value="{value}"/>'] + base[line + 3:]))
        told = call("topology", "check", "wrong.xml", fails=True)
        if f"wrong.xml:{line + 1}: " not in told or told.count("\n") != 1 or len(told) > 300:
            sys.exit(f"FAIL: {name}={value[:20]}: {told}")
print(f"{n} platforms")
