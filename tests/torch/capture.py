"""What `foreline capture` sees of scripts whose communication is known: kinds, counts and bytes, exactly.

capture.py FORELINE: each test is a function; scripts are those of examples/capture and small ones written here."""
import json
import os
import subprocess
import sys
import tempfile

FORELINE = os.path.abspath(sys.argv[1])
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'examples', 'capture')
HEAD = '''
import torch, torch.nn as nn, torch.distributed as dist
dist.init_process_group('gloo')
rank, world = dist.get_rank(), dist.get_world_size()
net = nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(8):
    x = torch.randn(4, 8)
'''


def capture(script, world, *options):
    """The classes of a script, a file and its arguments or the text of a step; and what was said."""
    with tempfile.TemporaryDirectory() as folder:
        if '\n' in script:
            path = os.path.join(folder, 'script.py')
            with open(path, 'w') as f:
                f.write(HEAD + ''.join('    ' + line + '\n' for line in script.strip().splitlines()))
            words = [path]
        else:
            words = script.split()
            words[0] = os.path.join(EXAMPLES, words[0])
        out = subprocess.run([FORELINE, 'capture', '-o', os.path.join(folder, 'c'), '--world-size', str(world), *options, '--',
                              sys.executable, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if out.returncode:
            return None, out.stdout
        with open(os.path.join(folder, 'c', 'capture.json')) as f:
            head = json.load(f)
        classes = []
        for c in head['classes']:
            with open(os.path.join(folder, 'c', c['file'])) as f:
                classes.append(dict(json.load(f), ranks=c['ranks']))
        for engine in ('analytic', 'simgrid'):
            subprocess.run([FORELINE, 'simulate', os.path.join(folder, 'c'), '--platform', 'two-racks', '--engine', engine],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return classes, out.stdout


def calls(c, *kinds):
    return [op['bytes'] for op in c['ops'] if op['op'] in kinds]


def flop(c):
    return sum(c['operators'][op['operator']]['flop'] for op in c['ops'] if op['op'] == 'compute')


def gpt_numbers(width=256, layers=4, vocab=2048, tokens=64):
    """Parameters, and FLOP of a step of 4 sequences: 6 per token of every product, and attention's own."""
    block = 12 * width ** 2 + 13 * width
    parameters = layers * block + 2 * vocab * width + tokens * width + 2 * width
    products = layers * 12 * width ** 2 + vocab * width
    return parameters, 4 * tokens * (6 * products + 12 * layers * width * tokens)


def data_parallel_sums_all_gradients():
    (c,), said = capture('train_gpt.py --bucket 4', 4)
    parameters, work = gpt_numbers()
    assert sum(calls(c, 'allreduce')) == 4 * parameters, (calls(c, 'allreduce'), parameters)
    assert c['weight_bytes'] == c['gradient_bytes'] == 4 * parameters
    assert abs(flop(c) / work - 1) < 0.01, (flop(c), work)
    first = next(i for i, op in enumerate(c['ops']) if op['op'] == 'allreduce')
    assert any(op['op'] == 'compute' and op['phase'] == 'backward' for op in c['ops'][first:]), 'buckets overlap the backward'


def zero_broadcasts_what_each_rank_updates():
    classes, said = capture('train_gpt.py --parallel zero1', 2)
    parameters, _ = gpt_numbers()
    mask = 4 * 64 * 64      # a buffer, which DistributedDataParallel keeps equal
    assert all(sum(calls(c, 'broadcast')) == 4 * parameters + mask for c in classes)
    assert 8 * parameters <= sum(c['state_bytes'] for c in classes) <= 8 * parameters + 1000


def a_pipeline_has_three_classes():
    classes, said = capture('train_pipeline.py --width 64', 4)
    assert [c['ranks'] for c in classes] == [[0], [1, 2], [3]]
    assert [len(calls(c, 'send', 'recv')) for c in classes] == [8, 16, 8]
    assert set(calls(classes[1], 'send')) == {4 * 64 * 64}
    batched, said = capture('train_pipeline.py --width 64 --batched', 4)
    assert [c['ops'] for c in batched] == [c['ops'] for c in classes]


def experts_exchange_twice_each_way():
    (c,), said = capture('train_moe.py', 2)
    assert calls(c, 'alltoall') == 15 * [4 * 256 * 256]     # what comes to the first layer needs no gradient
    assert len(calls(c, 'allreduce')) == 8


def every_collective_is_known():
    (c,), said = capture('''
dist.all_reduce(x, op=dist.ReduceOp.MAX)
dist.broadcast(x, 0)
dist.reduce(x, 0)
dist.all_gather([torch.empty_like(x) for _ in range(world)], x)
dist.gather(x, [torch.empty_like(x) for _ in range(world)] if rank == 0 else None)
dist.scatter(x, [x.clone() for _ in range(world)] if rank == 0 else None)
dist.all_to_all_single(torch.empty_like(x), x)
dist.barrier()
net(x).sum().backward(); optimizer.step()''', 2, '--ranks', '0')
    names = [op['op'] for op in c['ops'] if op['op'] not in ('compute', 'wait')]
    assert names == ['allreduce', 'broadcast', 'reduce', 'allgather', 'gather', 'scatter', 'alltoall', 'allreduce'], names
    assert calls(c, 'allgather') == [256] and calls(c, 'gather') == [256] and calls(c, 'alltoall') == [128]


def groups_are_counted_as_a_rank_makes_them():
    classes, said = capture('''
if step == 0: groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
dist.all_reduce(x, group=groups[rank // 2])
net(x).sum().backward(); optimizer.step()''', 4)
    assert len(classes) == 1 and [op['group'] for op in classes[0]['ops'] if op['op'] == 'allreduce'] == [1]


def objects_are_sent_between_ranks_that_are_captured_together():
    import torch.distributed
    if not hasattr(torch.distributed, 'send_object_list'):
        print(f'skipped, torch {torch.__version__} sends no objects: ', end='')
        return
    classes, said = capture('''
if step == 0 and rank == 0: dist.send_object_list([7], 1)
if step == 0 and rank == 1: got = [None]; dist.recv_object_list(got, 0); assert got == [7]
if rank == 1: dist.all_reduce(x, group=dist.group.WORLD)
else: dist.all_reduce(x)
net(x).sum().backward(); optimizer.step()''', 2, '--dry')
    assert len(classes[-1]['dry_s']) == 2, said


def an_item_is_1():
    (c,), said = capture('''
loss = net(x).sum()
if loss.item() == 1: dist.all_reduce(x)
loss.backward(); optimizer.step()''', 2)
    assert len(calls(c, 'allreduce')) == 1 and 'item()' in said


def uneven_splits_are_their_mean():
    (c,), said = capture('''
y = torch.empty(4, 8)
dist.all_to_all_single(y, x, [1, 3] if rank == 0 else [1, 3], [1, 3])
net(x).sum().backward(); optimizer.step()''', 2)
    assert calls(c, 'alltoall') == [128] and 'uneven' in said


def real_and_fake_are_the_same_step():
    fake, _ = capture('train_moe.py', 2)
    real, _ = capture('train_moe.py', 2, '--real')
    assert [op['op'] for op in fake[0]['ops']] == [op['op'] for op in real[0]['ops']] or flop(fake[0]) == flop(real[0])
    assert calls(fake[0], 'alltoall', 'allreduce') == calls(real[0], 'alltoall', 'allreduce')


def a_compiled_module_is_captured():
    import torch
    if hasattr(torch, 'compile'):
        (c,), said = capture('''
torch.compile(net)(x).sum().backward()
optimizer.step()''', 1)
        assert flop(c) > 0 and 'compile' in said


def what_gpus_alone_have_is_captured():
    """Models that are made without memory, facts of GPUs, and attention for which a CPU has no backward."""
    script = '''
places = torch.arange(8, device='meta')[: 8 // 2].pow(2).sum()
room = torch.cuda.get_device_properties('cuda:0').total_memory
x = torch.randn(4, 8, device='cuda')
net(x).sum().backward(); optimizer.step()'''
    (c,), said = capture(script, 2, '--device', 'cuda')
    assert flop(c) == 2 * 2 * 4 * 8 * 8, flop(c)    # a forward and the weights' gradient
    classes, said = capture('graph = torch.cuda.CUDAGraph()\nx', 1, '--device', 'cuda')
    assert classes is None and 'turn CUDA graphs off' in said, said
    try:
        import torch.nn.attention.flex_attention
    except ImportError:
        print('flex_attention: not tried, this torch has none')
        return
    script = '''
from torch.nn.attention.flex_attention import flex_attention
q = torch.randn(1, 4, 64, 16, device='cuda', requires_grad=True)
flex_attention(q, q[:, :2], q[:, :2], enable_gqa=True).sum().backward()
net(x).sum().backward(); optimizer.step()'''
    (c,), said = capture(script, 1, '--device', 'cuda')
    products = 2 * 2 * 4 * 8 * 8
    assert abs(flop(c) - products - 3.5 * 4 * 4 * 64 * 64 * 16) < 1, flop(c)
    assert 'flex_attention' in said


def operators_and_dry_runs_are_measured():
    (c,), said = capture('''
dist.all_reduce(x)
net(x).sum().backward(); optimizer.step()''', 2, '--ranks', '0', '--dry', '--profile')
    assert len(c['dry_s']) == 2 and all(s > 0 for s in c['dry_s'])
    assert f'{len(c["operators"])} operators are measured' in said, said


def what_goes_wrong_is_one_line():
    for script, words, options in (('raise SystemExit(3)\nx', 'status 3', ()), ('x.undefined()\nx', 'undefined', ()),
                                   ('pass\npass', 'no step', ()), ('dist.recv(x)\nx', 'without a source', ())):
        classes, said = capture(script, 1, '--real', *options)
        assert classes is None and words in said, (script, said)


def main():
    try:
        import torch
        import torch.distributed
    except ImportError as e:
        print(f'skipped: {e}')
        return 77
    only = sys.argv[2:]
    for test in (data_parallel_sums_all_gradients, zero_broadcasts_what_each_rank_updates, a_pipeline_has_three_classes,
                 experts_exchange_twice_each_way, every_collective_is_known, groups_are_counted_as_a_rank_makes_them,
                 objects_are_sent_between_ranks_that_are_captured_together,
                 an_item_is_1, uneven_splits_are_their_mean, real_and_fake_are_the_same_step, a_compiled_module_is_captured, what_gpus_alone_have_is_captured,
                 operators_and_dry_runs_are_measured, what_goes_wrong_is_one_line):
        if only and only[0] in globals() and test.__name__ not in only:
            continue
        test()
        print(test.__name__, flush=True)
    return 0


sys.exit(main())
