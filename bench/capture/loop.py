"""Predictions of scripts against their real runs on this machine, one pinned core a rank.

    loop.py FORELINE FOLDER [--python P] [--ranks 2] [--steps 40] SCRIPT [-- SCRIPT ...]

A SCRIPT is a file and its arguments, one word: "train_gpt.py --parallel zero1". Gloo is measured first and becomes a
platform; every script is captured (--dry --profile) and predicted, the predictions are on disk before the first real run.
Then each runs plainly, for the times of its steps ("ms 12.3" at the end of a line), and under torch's profiler, for its
collectives and the peak of host allocations. Writes FOLDER/results.md; says how many cores others used meanwhile."""
import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
GLOO = {'allreduce': 'gloo:all_reduce', 'broadcast': 'gloo:broadcast', 'alltoall': 'gloo:all_to_all', 'allgather': 'gloo:all_gather',
        'reducescatter': 'gloo:reduce_scatter', 'send': 'gloo:send', 'recv': 'gloo:recv'}


def busy():
    """CPU seconds of the whole machine so far, and of this process and its children."""
    with open('/proc/stat') as f:
        word = f.readline().split()
    return sum(int(word[k]) for k in (1, 2, 3, 6, 7)) / os.sysconf('SC_CLK_TCK'), sum(os.times()[:4])


def run_ranks(o, words):
    """Each rank's output; and cores that others used."""
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    before, began, ranks = busy(), time.time(), []
    for r in range(o.ranks):
        env = dict(os.environ, RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE=str(o.ranks), LOCAL_WORLD_SIZE=str(o.ranks),
                   MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port), OMP_NUM_THREADS='1', GLOO_SOCKET_IFNAME='lo')
        mine = [w.replace('%r', str(r)) for w in words]
        ranks.append(subprocess.Popen(['taskset', '-c', str(r % os.cpu_count()), o.python, *mine], env=env, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    out = []
    for p in ranks:
        text, errors = p.communicate(timeout=600)
        if p.returncode:
            sys.exit(errors[-2000:])
        out.append(text)
    after = busy()
    others = (after[0] - before[0] - (after[1] - before[1])) / (time.time() - began)
    return out, max(0.0, others)


def write_platform(o, table, path):
    """Hosts on one switch, with what was measured; messages by their latency and the slope of the largest two."""
    (size0, t0), (size1, t1) = table['send'][-2:]
    bandwidth = (size1 - size0) / max(t1 - t0, 1e-9)
    latency = table['send'][0][1]
    curves = ''.join(f'    <prop id="curve:{kind}:{o.ranks}x1" value="' + ' '.join(f'{size}B@{t * 1e6:.3f}us' for size, t in rows) + '"/>\n'
                     for kind, rows in table.items() if kind != 'send')
    hosts = ''.join(f'    <host id="rank{r}" speed="50Gf"/>\n' for r in range(o.ranks))
    links = ''.join(f'    <link id="link{r}" bandwidth="{bandwidth:.6g}Bps" latency="{latency / 2 * 1e6:.3f}us" sharing_policy='
                    f'"SPLITDUPLEX"><prop id="tier" value="loopback"/></link>\n' for r in range(o.ranks))
    routes = ''.join(f'    <route src="rank{r}" dst="switch"><link_ctn id="link{r}" direction="UP"/></route>\n' for r in range(o.ranks))
    with open(path, 'w') as f:
        f.write('<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n<platform version="4.1">\n'
                '  <zone id="here" routing="DijkstraCache">\n    <prop id="type" value="core"/>\n    <prop id="memory" value="4GiB"/>\n'
                f'    <prop id="memory_bandwidth" value="12.8GBps"/>\n{curves}{hosts}    <router id="switch"/>\n{links}{routes}'
                '  </zone>\n</platform>\n')


def predict(o, folder, operators):
    out = subprocess.run([o.foreline, 'simulate', folder, '--platform', o.platform, '--operators', operators, '--serial',
                          '--engine', 'analytic', '--json'], check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    m = json.loads(out.stdout)
    return m['iteration_s'], max(r['peak_bytes'] for r in m['ranks'])


def captured_calls(folder):
    """Of each rank, by gloo's names."""
    with open(os.path.join(folder, 'capture.json')) as f:
        head = json.load(f)
    out = [None] * head['world_size']
    for c in head['classes']:
        with open(os.path.join(folder, c['file'])) as f:
            ops = json.load(f)['ops']
        calls = {}
        for op in ops:
            if op['op'] in GLOO:
                calls[GLOO[op['op']]] = calls.get(GLOO[op['op']], 0) + 1
        for r in c['ranks']:
            out[r] = calls
    return out


def main():
    p = argparse.ArgumentParser()
    p.add_argument('foreline')
    p.add_argument('folder')
    p.add_argument('--python', default='/usr/bin/python3')
    p.add_argument('--ranks', type=int, default=2)
    p.add_argument('--steps', type=int, default=40)
    p.add_argument('scripts', nargs='+')
    o = p.parse_args()
    os.makedirs(o.folder, exist_ok=True)
    gloo = os.path.join(o.folder, 'gloo.json')
    if not os.path.exists(gloo):
        run_ranks(o, [os.path.join(HERE, 'gloo.py'), gloo])
    with open(gloo) as f:
        table = json.load(f)
    o.platform = os.path.join(o.folder, 'gloo.xml')
    write_platform(o, table, o.platform)
    predictions = {}
    for k, script in enumerate(o.scripts):
        folder = os.path.join(o.folder, f'capture-{k}')
        subprocess.run([o.foreline, 'capture', '--world-size', str(o.ranks), '--dry', '--profile', '-o', folder, '--', o.python,
                        *script.split(), '--steps', '24'], check=True)
        predictions[script] = {'dry': predict(o, folder, 'dry'), 'table': predict(o, folder, os.path.join(folder, 'operators.json')),
                               'calls': captured_calls(folder)}
    with open(os.path.join(o.folder, 'predictions.json'), 'w') as f:
        json.dump(predictions, f, indent=1)
    rows = ['| script | real ms (p10..p90) | cores of others | dry run | table | collectives | peak MB, real | error |',
            '|---|---|---|---|---|---|---|---|']
    for script, said in predictions.items():
        out, others = run_ranks(o, [os.path.join(HERE, 'real.py'), *script.split(), '--steps', str(o.steps)])
        steps = [[float(x) for x in re.findall(r' ms ([0-9.]+)', text)] for text in out]
        real = sorted(max(column) for column in list(zip(*steps))[4:])
        middle = statistics.median(real)
        profile = os.path.join(o.folder, 'profile.%r')
        run_ranks(o, [os.path.join(HERE, 'real.py'), '--profile', profile, *script.split(), '--steps', '6'])
        seen = [json.load(open(profile.replace('%r', str(r)))) for r in range(o.ranks)]
        known = seen[0]['calls'] is not None
        equal = [s['calls'] == c for s, c in zip(seen, said['calls'])]
        calls = '-' if not known else 'equal' if all(equal) else f'real {seen[equal.index(False)]["calls"]}'
        peak = max(s['peak_bytes'] for s in seen) if known else 0
        memory = f'{peak / 1e6:.1f} | {100 * (said["dry"][1] / peak - 1):+.1f} %' if known else '- | -'
        by = {how: f'{1e3 * said[how][0]:.1f} ({100 * (1e3 * said[how][0] / middle - 1):+.1f} %)' for how in ('dry', 'table')}
        rows.append(f'| `{os.path.basename(script)}` | {middle:.1f} ({real[len(real) // 10]:.1f}..{real[9 * len(real) // 10]:.1f}) | '
                    f'{others:.2f} | {by["dry"]} | {by["table"]} | {calls} | {memory} |')
        print(rows[-1], flush=True)
    with open(os.path.join(o.folder, 'results.md'), 'w') as f:
        f.write('\n'.join(rows) + '\n')


main()
