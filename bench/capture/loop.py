"""The table of predicted and real steps of training scripts on this machine: `foreline validate --ranks` over all of them.

    loop.py FORELINE FOLDER [--python P] [--steps 20] [--only WORDS]

Each of the scripts below on 2 and 4 ranks, gloo, one pinned core a rank (4 ranks share cores where there are fewer). Predictions are on
disk before the runs (FOLDER/NAME/predictions.json); cores that others used stand in every row. Prints a Markdown table and what
it comes to, also FOLDER/results.md. A folder that is done is not done again, so that noisy ones can be removed and repeated."""
import argparse
import json
import os
import statistics
import subprocess
import sys

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'examples', 'capture')
SCRIPTS = {     # name: words
    'ddp': 'train_gpt.py',
    'ddp-buckets': 'train_gpt.py --bucket 4',
    'ddp-wide': 'train_gpt.py --width 512 --bucket 8',
    'ddp-long': 'train_gpt.py --tokens 256 --batch 2',
    'zero1': 'train_gpt.py --parallel zero1',
    'fsdp2': 'train_gpt.py --parallel fsdp2',
    'fsdp2-wide': 'train_gpt.py --parallel fsdp2 --width 512 --layers 2',
    'tensor': 'train_gpt.py --parallel tensor',
    'pipeline': 'train_pipeline.py',
    'pipeline-wide': 'train_pipeline.py --width 1024 --microbatches 8 --batched',
    'moe': 'train_moe.py',
    'moe-wide': 'train_moe.py --width 384 --tokens 512',
}


def run_all(o):
    rows = []
    for name, words in SCRIPTS.items():
        if o.only and o.only not in name:
            continue
        script, folder = words.split(), os.path.join(o.folder, name)
        result = os.path.join(folder, 'results.json')
        if not os.path.exists(result):
            done = subprocess.run([o.foreline, 'validate', '--ranks', o.ranks, '--profile', '--steps', str(o.steps), '--warmup', '4', '-o',
                                   folder, '--', o.python, os.path.join(EXAMPLES, script[0]), *script[1:], '--steps', str(o.steps + 8)],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if done.returncode:
                lines = done.stderr.strip().splitlines()
                print(f'{name}: {lines[-1] if lines else done.returncode}', file=sys.stderr, flush=True)
                continue
        with open(result) as f:
            for row in json.load(f)['rows']:
                rows.append((words, row))
                print(line_of(words, row), flush=True)
    return rows


HEAD = ['| script | ranks | measured ms (p10..p90) | dry run | operators | collectives | peak memory | cores of others |',
        '|---|--:|---|--:|--:|---|--:|--:|']


def line_of(words, r):
    known = r['calls_equal']
    same = 'not seen' if known is None else 'equal' if known and r['bytes_equal'] else 'differ'
    calls = sum(c['calls'] for c in r['collectives'])
    return (f'| `{words}` | {r["ranks"]} | {1e3 * r["measured_s"]:.1f} ({1e3 * r["p10_s"]:.1f}..{1e3 * r["p90_s"]:.1f}) | '
            f'{1e3 * r["predicted_s"]:.1f} ({100 * r["error"]:+.1f} %) | {1e3 * r["operators_s"]:.1f} '
            f'({100 * r["operators_error"]:+.1f} %) | {same}: {calls} calls | {"at most " if r["peak_bound"] else ""}'
            f'{r["peak_measured_bytes"] / 1e6:.1f} MB ({100 * r["peak_error"]:+.1f} %) | {r["cores_of_others"]:.2f} |')


def summary(rows):
    """Errors of all rows, and of those that ran while the machine was quiet."""
    out = []
    for what, some in (('all', rows), ('quiet (others used at most 0.05 cores)', [r for r in rows if r[1]['cores_of_others'] <= 0.05])):
        for ranks in sorted({r['ranks'] for _, r in some}):
            for key in ('error', 'operators_error'):
                errors = [abs(r[key]) for _, r in some if r['ranks'] == ranks]
                out.append(f'* {what}, {ranks} ranks, {"dry run" if key == "error" else "operators"}: {len(errors)} scripts, median '
                           f'{100 * statistics.median(errors):.1f} %, worst {100 * max(errors):.1f} %')
    return out


def main():
    p = argparse.ArgumentParser()
    p.add_argument('foreline')
    p.add_argument('folder')
    p.add_argument('--python', default='/usr/bin/python3')
    p.add_argument('--ranks', default='2,4')
    p.add_argument('--steps', type=int, default=20)
    p.add_argument('--only', default='')
    o = p.parse_args()
    os.makedirs(o.folder, exist_ok=True)
    print('\n'.join(HEAD))
    rows = run_all(o)
    text = [*HEAD, *(line_of(*row) for row in rows), '', *summary(rows)]
    print('\n'.join(text[2 + len(rows):]))
    with open(os.path.join(o.folder, 'results.md'), 'w') as f:
        f.write('\n'.join(text) + '\n')


main()
