"""Predict a training script on this machine's cores, then run it for real, and compare.

Called by `foreline validate --ranks`; docs/how-to/capture.md is about it. For each number of ranks: capture with a dry run, measure
gloo in the sizes of the capture, predict by `foreline simulate`. All predictions are on disk before the first real run. Ranks
start with the environment of torchrun, one thread each, rank N on core N modulo the cores.

    DIR/capture-N/, gloo-N.xml   the capture, and the platform that was measured
    DIR/predicted/N.json         as foreline simulate writes it; predictions.json: SHA-256 of each, and when
    DIR/measured/N.json          a measurement; results.json, results.md: what came out

Standard library only; Python >= 3.9."""
import argparse
import collections
import contextlib
import hashlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time

import capture
from capture_alone import Unsuited
from capture_operators import write_json

HERE = os.path.dirname(os.path.abspath(__file__))
CORES = sorted(os.sched_getaffinity(0))
CURVES = {'allreduce': 'all-reduce', 'broadcast': 'broadcast', 'alltoall': 'all-to-all', 'allgather': 'all-gather',
          'reducescatter': 'reduce-scatter'}
SIZE_OF = {'fp32': 4, 'fp16': 2, 'bf16': 2, 'float32': 4, 'float64': 8, 'float16': 2, 'bfloat16': 2, 'int64': 8, 'int32': 4,
           'int16': 2, 'int8': 1, 'uint8': 1, 'bool': 1}
MOST_SIZES = 8      # of a kind of collective that gloo is measured with
BUSY_CORES = 0.05   # that others may use while times still count
BUSY_SPREAD = 0.10  # of the steps: distance of the quartiles / median


class Failed(Exception):
    """One line for the user."""


# ---- ranks for real

def stat():
    """CPU seconds of the whole machine so far, and of this process and its children."""
    with open('/proc/stat') as f:
        word = f.readline().split()
    return sum(int(word[k]) for k in (1, 2, 3, 6, 7)) / os.sysconf('SC_CLK_TCK'), sum(os.times()[:4])


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def code_of(p):
    """None while it runs. It is not waited for, so that its number stays its own until stop_all()."""
    end = os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return None if end is None else end.si_status if end.si_code == os.CLD_EXITED else -end.si_status


def stop_all(ranks):
    """Also what ranks have started: each is a process group."""
    for p in ranks:
        try:
            os.killpg(p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        p.wait()


def wait_all(o, ranks, logs):
    """Until all have ended; who fails takes the others along, after a moment in which they may say why."""
    until, failed = time.monotonic() + o.timeout, None
    while any(code_of(p) is None for p in ranks):
        bad = [r for r, p in enumerate(ranks) if code_of(p) not in (None, 0)]
        if bad and failed is None:
            failed, until = bad[0], min(until, time.monotonic() + 3)
        if time.monotonic() > until:
            break
        time.sleep(0.02)
    stuck = [r for r, p in enumerate(ranks) if code_of(p) is None]
    bad = [r for r, p in enumerate(ranks) if code_of(p) not in (None, 0)]
    if failed is not None or bad:
        r = bad[0] if failed is None else failed
        with open(logs[r], errors='replace') as f:
            lines = [line.strip() for line in f.read().splitlines() if line.strip()]
        raise Failed(f'rank {r} of {len(ranks)} failed: {lines[-1] if lines else "no message"} (all of it: {logs[r]})')
    if stuck:
        raise Failed(f'rank {stuck[0]} of {len(ranks)} did not end within {o.timeout:g} s; see {logs[stuck[0]]}, or raise --timeout')


def run_ranks(o, n, what, words, period=1):
    """Run n ranks; the cores that others used meanwhile. '%r' in words is the rank."""
    port, before, began, ranks, logs = free_port(), stat(), time.monotonic(), [], []
    os.makedirs(os.path.join(o.output, 'logs'), exist_ok=True)
    try:
        for r in range(n):
            logs.append(os.path.join(o.output, 'logs', f'{what}-{n}-rank{r}.txt'))
            env = dict(os.environ, RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE=str(n), LOCAL_WORLD_SIZE=str(n), GROUP_RANK='0',
                       ROLE_RANK=str(r), ROLE_WORLD_SIZE=str(n), MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port),
                       TORCHELASTIC_RUN_ID='foreline', OMP_NUM_THREADS='1', GLOO_SOCKET_IFNAME='lo', PYTHONDONTWRITEBYTECODE='1',
                       FORELINE_CORE=str(CORES[r % len(CORES)]), FORELINE_PERIOD=str(period), CUDA_VISIBLE_DEVICES='')
            with open(logs[-1], 'w') as log:
                ranks.append(subprocess.Popen([o.python, *(w.replace('%r', str(r)) for w in words)], env=env, stdout=log, stderr=log,
                                              stdin=subprocess.DEVNULL, start_new_session=True))
        wait_all(o, ranks, logs)
    finally:
        stop_all(ranks)
    after = stat()
    return max(0.0, (after[0] - before[0] - (after[1] - before[1])) / (time.monotonic() - began))


# ---- the prediction

def read_json(path):
    with open(path) as f:
        return json.load(f)


def classes_of(folder):
    head = read_json(os.path.join(folder, 'capture.json'))
    return [dict(read_json(os.path.join(folder, c['file'])), ranks=c['ranks']) for c in head['classes']], head


def members_of(c, head, op):
    """How many ranks are in an op's group, which is counted among those of the rank."""
    own = [g for g in head['groups'] if c['ranks'][0] in g]
    return len(own[op['group']])


def calls_of(folder):
    """Of each rank, sorted [kind, elements], as gloo is given them; and bytes by kind."""
    classes, head = classes_of(folder)
    out = [None] * head['world_size']
    for c in classes:
        calls, size = [], collections.Counter()
        for op in c['ops']:
            if op['op'] in ('compute', 'wait'):
                continue
            kind, width = op['op'], SIZE_OF.get(op.get('type', 'fp32'), 4)
            count = op['bytes'] // width
            if kind == 'allgather':
                count //= members_of(c, head, op)       # gloo's figure is what each rank gives
            kind = 'allreduce' if kind == 'reducescatter' else kind     # as gloo does it, and calls it
            calls.append([kind, count])
            size[kind] += op['bytes']
        for r in c['ranks']:
            out[r] = (sorted(calls), size)
    return out


def wanted_of(folder):
    """What gloo is measured with: of each kind and number of members the sizes of the capture, some of them where they are many."""
    classes, head = classes_of(folder)
    sizes = collections.defaultdict(set)
    for c in classes:
        for op in c['ops']:
            if op['op'] in CURVES and members_of(c, head, op) > 1 and op['bytes'] > 0:
                sizes[CURVES[op['op']], members_of(c, head, op)].add(op['bytes'])
    rows = []
    for (kind, members), found in sorted(sizes.items()):
        found = sorted(found)
        step = max(1, (len(found) + MOST_SIZES - 1) // MOST_SIZES)
        rows += [[kind, members, size] for size in sorted({*found[::step], found[-1]})]
    return rows + [['send', head['world_size'], size] for size in (1 << 12, 1 << 16, 1 << 20, 1 << 22)]


def write_platform(n, rows, path):
    """Hosts on one switch, with what was measured; messages by their latency and the slope of the largest two."""
    sent = [(size, t) for kind, _, size, t in rows if kind == 'send']
    bandwidth = (sent[-1][0] - sent[-2][0]) / max(sent[-1][1] - sent[-2][1], 1e-9)
    curves = collections.defaultdict(list)
    for kind, members, size, t in rows:
        if kind != 'send':
            curves[f'curve:{kind}:{members}x1'].append(f'{size}B@{t * 1e6:.3f}us')
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') // n
    put = ['<?xml version="1.0"?>', '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">', '<platform version="4.1">',
           '  <zone id="here" routing="DijkstraCache">', '    <prop id="type" value="core"/>',
           f'    <prop id="memory" value="{memory}B"/>', '    <prop id="memory_bandwidth" value="12.8GBps"/>']
    put += [f'    <prop id="{name}" value="{" ".join(points)}"/>' for name, points in curves.items()]
    put += [f'    <host id="rank{r}" speed="50Gf"/>' for r in range(n)] + ['    <router id="switch"/>']
    put += [f'    <link id="link{r}" bandwidth="{bandwidth:.6g}Bps" latency="{sent[0][1] / 2 * 1e6:.3f}us" '
            'sharing_policy="SPLITDUPLEX"><prop id="tier" value="loopback"/></link>' for r in range(n)]
    put += [f'    <route src="rank{r}" dst="switch"><link_ctn id="link{r}" direction="UP"/></route>' for r in range(n)]
    with open(path, 'w') as f:
        f.write('\n'.join([*put, '  </zone>', '</platform>', '']))


def simulate(o, n, folder, operators, out):
    """A core has ranks / cores ranks, each of which takes so many times as long."""
    share = -(-n // len(CORES))
    slow = ['--slow', ','.join(f'{r}={share}' for r in range(n))] if share > 1 else []
    done = subprocess.run([o.foreline, 'simulate', folder, '--platform', os.path.join(o.output, f'gloo-{n}.xml'), '--operators', operators,
                           '--serial', '--engine', 'analytic', '--output', out, *slow], text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode:
        raise Failed(f'{folder} cannot be simulated: {done.stderr.strip().splitlines()[-1]}')
    return read_json(out)


def capture_here(o, n, folder):
    words = ['-o', folder, '--world-size', str(n), '--timeout', str(o.timeout), '--dry', *(['--profile'] if o.profile else []), '--',
             o.python, *o.words]
    with open(os.path.join(o.output, 'logs', f'capture-{n}.txt'), 'w') as log, contextlib.redirect_stdout(log):
        if capture.main(words) != 0:
            raise Failed('the script cannot be captured; the line above says why')


def predict(o, n):
    """Of n ranks; everything is on disk afterwards."""
    folder, out = os.path.join(o.output, f'capture-{n}'), os.path.join(o.output, 'predicted', f'{n}.json')
    tell(o, f'{n} ranks: capture, with a dry run')
    capture_here(o, n, folder)
    wanted, table = (os.path.join(o.output, f'gloo-{n}.{what}.json') for what in ('wanted', 'measured'))
    write_json(wanted, wanted_of(folder))
    tell(o, f'{n} ranks: measure gloo')
    others = run_ranks(o, n, 'gloo', [os.path.join(HERE, 'capture_gloo.py'), wanted, table])
    write_platform(n, read_json(table), os.path.join(o.output, f'gloo-{n}.xml'))
    m = simulate(o, n, folder, 'dry', out)
    classes, head = classes_of(folder)
    period = max(c['steps'] for c in classes)
    with open(out, 'rb') as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    said = {'ranks': n, 'file': f'predicted/{n}.json', 'sha256': digest, 'period': period, 'step_s': m['iteration_s'] / period,
            'peak_bytes': max(r['peak_bytes'] for r in m['ranks']), 'torch': head['torch'], 'cores_of_others': round(others, 3)}
    if o.profile:
        table = os.path.join(folder, 'operators.json')
        said['operators_step_s'] = simulate(o, n, folder, table, os.path.join(o.output, f'operators-{n}.json'))['iteration_s'] / period
    return said


# ---- what happened

def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def measure(o, said):
    """The script for real: plainly for its times, under torch's profiler for its calls and memory."""
    n, real = said['ranks'], os.path.join(HERE, 'capture_real.py')
    out = os.path.join(o.output, 'logs', f'run-{n}-rank%r.json')
    tell(o, f'{n} ranks: run')
    others = run_ranks(o, n, 'run', [real, str(o.warmup + o.steps), out, '--', *o.words])
    runs = [read_json(out.replace('%r', str(r))) for r in range(n)]
    ends = [max(column) for column in zip(*([e[0] for e in run['ended']] for run in runs))]
    steps = [b - a for a, b in zip(ends, ends[1:])][max(0, o.warmup - 1):]
    if not steps:
        raise Failed(f'the script made {len(ends)} steps, expected more than --warmup {o.warmup}')
    cpu = [statistics.median(b[1] - a[1] for a, b in zip(run['ended'], run['ended'][1:])) for run in runs]
    tell(o, f'{n} ranks: run under the profiler')
    out = os.path.join(o.output, 'logs', f'profile-{n}-rank%r.json')
    run_ranks(o, n, 'profile', [real, str(4 + 2 * said['period']), out, '--profile', '--', *o.words], said['period'])
    seen = [read_json(out.replace('%r', str(r))) for r in range(n)]
    return {'ranks': n, 'steps_s': steps, 'cpu_s': cpu, 'cores_of_others': round(others, 3), 'calls': [s['calls'] for s in seen],
            'peaks': peaks_of(os.path.join(o.output, f'capture-{n}'), seen), 'peak_bound': any(s['grows'] for s in seen)}


def peaks_of(folder, seen):
    """Of each rank. What gloo's threads give back the profiler misses: of ranks that are alike the least is right for all."""
    out = [0] * len(seen)
    for c in classes_of(folder)[0]:
        base = min(seen[r]['base_bytes'] for r in c['ranks'])
        for r in c['ranks']:
            out[r] = base + seen[r]['rise_bytes']
    return out


def write_measurement(o, n, got):
    """As every other command takes it."""
    step = statistics.median(got['steps_s'])
    busy = [min(step, cpu) for cpu in got['cpu_s']]
    warnings = [f'the machine was not idle: others used {got["cores_of_others"]:.2f} of {len(CORES)} cores'] \
        if got['cores_of_others'] > BUSY_CORES else []
    write_json(os.path.join(o.output, 'measured', f'{n}.json'), {
        'format': 'foreline-measurement', 'version': 1, 'engine': 'torch-gloo', 'plan': os.path.abspath(os.path.join(o.output, f'capture-{n}')),
        'model': ' '.join([os.path.basename(o.words[0]), *o.words[1:]]), 'platform': 'here', 'iteration_s': step,
        'iterations_s': got['steps_s'], 'samples_per_s': 1 / step, 'tokens_per_s': 0, 'bubble_fraction': 0, 'flops': 0, 'mfu': 0,
        'cpu_s': sum(got['cpu_s']), 'microbatches': 1, 'warnings': warnings,
        'ranks': [{'name': f'rank{r}', 'busy_s': b, 'exposed_comm_s': step - b, 'idle_s': 0, 'peak_bytes': got['peaks'][r],
                   'stage': 0} for r, b in enumerate(busy)], 'links': []})


def compare(o, said, got):
    """One number of ranks as a row of the results."""
    n, steps = said['ranks'], got['steps_s']
    middle = statistics.median(steps)
    row = {'ranks': n, 'measured_s': middle, 'p10_s': quantile(steps, 0.1), 'p90_s': quantile(steps, 0.9), 'steps': len(steps),
           'predicted_s': said['step_s'], 'error': said['step_s'] / middle - 1, 'cores_of_others': got['cores_of_others'],
           'spread': (quantile(steps, 0.75) - quantile(steps, 0.25)) / middle, 'peak_predicted_bytes': said['peak_bytes'],
           'peak_measured_bytes': max(got['peaks']), 'peak_bound': got['peak_bound'],
           'peak_error': said['peak_bytes'] / max(1, *got['peaks']) - 1}
    if 'operators_step_s' in said:
        row['operators_s'] = said['operators_step_s']
        row['operators_error'] = said['operators_step_s'] / middle - 1
    expected = calls_of(os.path.join(o.output, f'capture-{n}'))
    row['collectives'] = collectives(expected, got['calls'])
    known = all(c is not None for c in got['calls'])
    row['calls_equal'] = all(a['calls'] == a['measured_calls'] for a in row['collectives']) if known else None
    row['bytes_equal'] = all(e[0] == c for e, c in zip(expected, got['calls'])) if known else None
    return row


def collectives(expected, seen):
    """A row for each kind, of all ranks together. Where calls have as many elements as expected, they have as many bytes."""
    out = []
    for kind in sorted({call[0] for calls, _ in expected for call in calls} | {c[0] for calls in seen for c in calls or []}):
        calls = sum(call[0] == kind for c, _ in expected for call in c)
        size = sum(s[kind] for _, s in expected)
        row = {'kind': kind, 'calls': calls, 'bytes': size, 'measured_calls': None, 'measured_bytes': None}
        if all(c is not None for c in seen):
            row['measured_calls'] = sum(c[0] == kind for calls in seen for c in calls)
            there = sum(count for c, _ in expected for name, count in c if name == kind)
            found = sum(count for c in seen for name, count in c if name == kind)
            row['measured_bytes'] = round(size * found / there) if there else (0 if found == 0 else None)
        out.append(row)
    return out


# ---- words

def tell(o, text):
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


def ms(seconds):
    return f'{1e3 * seconds:.1f} ms'


def mib(size):
    return '-' if size is None else f'{size / 2 ** 20:.2f} MiB'


def noise(rows):
    """Why times do not count; None where they do."""
    busy = max(r['cores_of_others'] for r in rows)
    spread = max(r['spread'] for r in rows)
    if busy <= BUSY_CORES and spread <= BUSY_SPREAD:
        return None
    return (f'noise: other programs used up to {busy:.2f} of {len(CORES)} cores, and steps of a run are {100 * spread:.0f} % apart '
            '(quartiles / median): the times say little; stop other work and run again')


def collectives_text(rows):
    if any(r['calls_equal'] is None for r in rows):
        return "collectives not compared: this torch's profiler does not see them (needs kineto)"
    if all(r['calls_equal'] and r['bytes_equal'] for r in rows):
        return 'collectives equal in number and bytes'
    bad = next(r for r in rows if not (r['calls_equal'] and r['bytes_equal']))
    what = next((c for c in bad['collectives'] if c['calls'] != c['measured_calls'] or c['bytes'] != c['measured_bytes']), None)
    return (f'collectives differ on {bad["ranks"]} ranks' +
            (f': {what["kind"]} {what["calls"]} calls of {mib(what["bytes"])} predicted, {what["measured_calls"]} of '
             f'{mib(what["measured_bytes"])} measured' if what else ' in their sizes'))


def answer(rows):
    """The three lines."""
    worst = max(rows, key=lambda r: abs(r['error']))
    lines = ['step        ' + '; '.join(f'{r["ranks"]} ranks: {ms(r["predicted_s"])} predicted, {ms(r["measured_s"])} measured '
                                        f'({100 * r["error"]:+.1f} %)' for r in rows),
             f'content     {collectives_text(rows)}; peak memory ' +
             ', '.join(f'{100 * r["peak_error"]:+.1f} %' + (' of a bound' if r['peak_bound'] else '') for r in rows),
             'machine     ' + (noise(rows) or f'quiet: others used at most {max(r["cores_of_others"] for r in rows):.2f} of '
                               f'{len(CORES)} cores; worst error {100 * abs(worst["error"]):.1f} %')]
    return lines


def tables(rows):
    yield '# ranks\tmeasured\tp10\tp90\tdry_run\terror_%\toperators\terror_%\tcores_of_others'
    for r in rows:
        operators = f'{ms(r["operators_s"])}\t{100 * r["operators_error"]:+.1f}' if 'operators_s' in r else '-\t-'
        yield (f'{r["ranks"]}\t{ms(r["measured_s"])}\t{ms(r["p10_s"])}\t{ms(r["p90_s"])}\t{ms(r["predicted_s"])}\t'
               f'{100 * r["error"]:+.1f}\t{operators}\t{r["cores_of_others"]:.2f}')
    yield ''
    yield '# ranks\tcollective\tcalls\tmeasured\tbytes\tmeasured   (a step of all ranks; gloo does a reduce-scatter as an all-reduce)'
    for r in rows:
        for c in r['collectives']:
            real = '-' if c['measured_calls'] is None else c['measured_calls']
            yield f'{r["ranks"]}\t{c["kind"]}\t{c["calls"]}\t{real}\t{mib(c["bytes"])}\t{mib(c["measured_bytes"])}'
    yield ''
    yield '# ranks\tpeak_memory\tmeasured\terror_%'
    for r in rows:
        yield (f'{r["ranks"]}\t{mib(r["peak_predicted_bytes"])}\t{"at most " if r["peak_bound"] else ""}{mib(r["peak_measured_bytes"])}\t'
               f'{100 * r["peak_error"]:+.1f}')


def columns(lines):
    """Tab-separated lines, block by block, with columns as wide as their widest cell."""
    out, block = [], []
    for line in [*lines, '']:
        if line:
            block.append(line.split('\t'))
            continue
        wide = [max(len(row[k]) for row in block if k < len(row) - 1) if any(k < len(row) - 1 for row in block) else 0
                for k in range(max(map(len, block)))] if block else []
        out += ['  '.join(cell.ljust(wide[k]) for k, cell in enumerate(row)).rstrip() for row in block] + ['']
        block = []
    return out[:-1]


# ---- all of it

def validate(o):
    if os.path.exists(os.path.join(o.output, 'predictions.json')):
        raise Failed(f'{o.output} already has predictions; choose another -o DIR')
    for folder in ('logs', 'predicted', 'measured'):
        os.makedirs(os.path.join(o.output, folder), exist_ok=True)
    said = [predict(o, n) for n in o.ranks]
    write_json(os.path.join(o.output, 'predictions.json'), {
        'format': 'foreline-predictions', 'written': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime()),
        'script': o.words, 'load': os.getloadavg()[0], 'predictions': said})
    rows = []
    for s in said:
        got = measure(o, s)
        write_measurement(o, s['ranks'], got)
        rows.append(compare(o, s, got))
    result = {'format': 'foreline-closed-loop', 'script': o.words, 'torch': said[0]['torch'], 'noise': noise(rows), 'rows': rows}
    write_json(os.path.join(o.output, 'results.json'), result)
    text = '\n'.join([*answer(rows), '', *columns(tables(rows))]) + '\n'
    with open(os.path.join(o.output, 'results.txt'), 'w') as f:
        f.write(text)
    print(json.dumps(result, indent=1) if o.json else text, end='\n' if o.json else '')
    worst = max(abs(r['error']) for r in rows)
    if o.fail_above is not None and worst > o.fail_above:
        raise Failed(f'the worst error is {100 * worst:.1f} %, above --fail-above {100 * o.fail_above:g} %')


def parse(argv):
    at = argv.index('--') if '--' in argv else len(argv)
    p = argparse.ArgumentParser(prog='capture_validate.py')
    p.add_argument('--foreline', required=True)
    p.add_argument('-o', '--output', required=True)
    p.add_argument('--ranks', required=True)
    p.add_argument('--steps', type=int, default=10)
    p.add_argument('--warmup', type=int, default=2)
    p.add_argument('--timeout', type=float, default=600)
    p.add_argument('--fail-above', type=float)
    for flag in ('--profile', '--json'):
        p.add_argument(flag, action='store_true')
    o = p.parse_args(argv[:at])
    o.output = os.path.abspath(o.output)        # in which case measurements name the same capture
    o.python, o.words = capture.split_words(argv[at + 1:])
    try:
        o.ranks = [int(word) for word in o.ranks.split(',')]
    except ValueError:
        o.ranks = []
    if not o.ranks or min(o.ranks) < 2 or max(o.ranks) > 64:
        raise Failed('--ranks: expected numbers of ranks from 2 to 64, such as 2,4')
    return o


def interrupted(number, frame):
    raise KeyboardInterrupt


def main(argv):
    signal.signal(signal.SIGTERM, interrupted)
    try:
        validate(parse(argv))
    except (Failed, Unsuited) as e:
        print(f'foreline validate: {e}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print('interrupted', file=sys.stderr)
        return 130
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
