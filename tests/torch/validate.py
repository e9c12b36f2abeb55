"""`foreline validate --ranks` and captures as an axis of `foreline sweep`: predictions before runs, equal memory, nothing left behind.

validate.py FORELINE: each test is a function. Times are not compared: the machine may be busy."""
import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time

FORELINE = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', '..', 'python'))
import capture_validate                                         # noqa: E402

SCRIPT = '''
import os, torch, torch.nn as nn, torch.distributed as dist
dist.init_process_group('gloo')
net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(30):
    if os.environ.get('FORELINE_CORE') and dist.get_rank() == 1 and step == 3 and os.path.exists('fails'):
        raise ValueError('rank 1 has had enough')
    net(torch.randn(64, 256)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
'''


def run(*words, cwd):
    return subprocess.run([FORELINE, *words], cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def read(*path):
    with open(os.path.join(*path)) as f:
        return json.load(f)


def a_script_is_predicted_then_run(folder):
    out = run('validate', '--ranks', '2', '--steps', '4', '--json', '-o', 'loop', '--', sys.executable, 'train.py', cwd=folder)
    assert out.returncode == 0, out.stderr
    row = json.loads(out.stdout)['rows'][0]
    assert row['predicted_s'] > 0 and row['measured_s'] > 0 and row['steps'] == 4, row
    assert row['calls_equal'] in (True, None) and row['bytes_equal'] in (True, None), row
    assert row['peak_bound'] or abs(row['peak_error']) < 0.05, row
    said = read(folder, 'loop', 'predictions.json')['predictions'][0]
    with open(os.path.join(folder, 'loop', said['file']), 'rb') as f:
        assert hashlib.sha256(f.read()).hexdigest() == said['sha256']
    times = [os.stat(os.path.join(folder, 'loop', name)).st_mtime for name in ('predictions.json', 'logs/run-2-rank0.txt')]
    assert times[0] <= times[1], 'the prediction is older than the run'
    again = run('validate', '--ranks', '2', '-o', 'loop', '--', sys.executable, 'train.py', cwd=folder)
    assert again.returncode == 1 and 'already has predictions' in again.stderr, again.stderr
    compared = run('compare', 'loop/predicted/2.json', 'loop/measured/2.json', cwd=folder)
    assert compared.returncode == 0, compared.stderr


def a_rank_that_fails_is_named(folder):
    with open(os.path.join(folder, 'fails'), 'w'):
        pass
    out = run('validate', '--ranks', '2', '-o', 'failed', '--', sys.executable, 'train.py', cwd=folder)
    assert out.returncode == 1 and 'rank 1 of 2 failed: ValueError: rank 1 has had enough' in out.stderr, out.stderr


def ranks_that_hang_are_ended_with_what_they_started(folder):
    o = argparse.Namespace(output=folder, python=sys.executable, timeout=1.0)
    code = 'import subprocess, time; print(subprocess.Popen(["sleep", "1000"]).pid, flush=True); time.sleep(1000)'
    began = time.monotonic()
    try:
        capture_validate.run_ranks(o, 2, 'hang', ['-c', code])
        raise AssertionError('ended')
    except capture_validate.Failed as e:
        assert 'did not end within 1 s' in str(e), e
    assert time.monotonic() - began < 10
    for rank in range(2):
        with open(os.path.join(folder, 'logs', f'hang-2-rank{rank}.txt')) as f:
            pid = int(f.read())
        for _ in range(100):
            if not os.path.exists(f'/proc/{pid}') or open(f'/proc/{pid}/stat').read().split()[2] == 'Z':
                break
            time.sleep(0.02)
        else:
            raise AssertionError(f'process {pid} of rank {rank} is left')


def a_sweep_captures_once(folder):
    with open(os.path.join(folder, 'e.yml'), 'w') as f:
        f.write(f'name: e\ncapture: {{script: {sys.executable} train.py, world_size: [2, 4], ranks: [0]}}\n'
                'platform: rail:nodes=1\nplatform.type: [H100, A100]\n')
    out = run('sweep', 'e.yml', cwd=folder)
    assert out.returncode == 0 and '4 ok' in out.stderr, out.stderr
    made = sorted(name for name in os.listdir(os.path.join(folder, 'captures')) if '.' not in name)
    assert len(made) == 2, made
    with open(os.path.join(folder, 'train.py'), 'a') as f:
        f.write('# another script\n')
    assert run('sweep', 'e.yml', '-o', 'again.db', cwd=folder).returncode == 0
    assert len([name for name in os.listdir(os.path.join(folder, 'captures')) if '.' not in name]) == 4
    with open(os.path.join(folder, 'e.yml'), 'a') as f:
        f.write('engine: tcp\n')
    out = run('sweep', 'e.yml', cwd=folder)
    assert out.returncode != 0 and 'foreline validate --ranks' in out.stderr, out.stderr


def main():
    try:
        import torch.distributed
        torch.distributed.init_process_group
    except (ImportError, AttributeError) as e:
        print(f'skipped: {e}')
        return 77
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, 'train.py'), 'w') as f:
            f.write(SCRIPT)
        for test in (a_script_is_predicted_then_run, a_rank_that_fails_is_named, ranks_that_hang_are_ended_with_what_they_started,
                     a_sweep_captures_once):
            test(folder)
            print(test.__name__, flush=True)
    return 0


sys.exit(main())
