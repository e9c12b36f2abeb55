"""One rank of a training script for real, until it has made enough steps.

Part of `foreline validate --ranks`: capture_real.py STEPS OUT [--profile] -- SCRIPT ARGUMENTS... The end of each step, and the CPU
time until then, go to OUT as JSON; with --profile what torch's profiler saw of the last steps: communication by kind and
number of elements, and the peak of host allocations."""
import json
import os
import sys
import time

if '--profile' not in sys.argv:         # before torch starts threads
    os.sched_setaffinity(0, {int(os.environ['FORELINE_CORE'])})

from capture_alone import patch_steps                           # noqa: E402
from capture_rank import Stop, run_script                       # noqa: E402

KINDS = {'gloo:all_reduce': 'allreduce', 'gloo:broadcast': 'broadcast', 'gloo:all_to_all': 'alltoall', 'gloo:all_gather': 'allgather',
         'gloo:reduce_scatter': 'reducescatter', 'gloo:send': 'send', 'gloo:recv': 'recv', 'gloo:reduce': 'reduce',
         'gloo:gather': 'gather', 'gloo:scatter': 'scatter', 'gloo:barrier': 'allreduce'}
MARK = 'foreline: a step ends'


class Steps:
    """What capture_alone.py tells of steps, as the record of a capture is told."""

    def __init__(self, most, profiled):
        self.most, self.profiled, self.explicit = most, profiled, False
        self.backward = self.updating = self.quiet = 0
        self.optimizers, self.marks, self.ended = [], [], []

    def end_backward(self):
        pass

    def mark(self):
        if self.profiled:
            import torch
            with torch.autograd.profiler.record_function(MARK):
                pass
        self.marks.append(1)
        self.ended.append([time.perf_counter(), time.process_time()])
        if len(self.marks) >= self.most:
            raise Stop()


def elements(shapes):
    total = 0
    for shape in shapes or []:
        count = 1
        for size in shape:
            count *= size
        total += count if shape else 0
    return total


def summary(events, last):
    """Of [time, name, bytes, shapes] in order: the last steps' communication; what is held between steps, how far it rises within,
    and whether it grows from step to step, which is what gloo's threads give back: the profiler does not see that."""
    ends = [e[0] for e in events if e[1] == MARK]
    calls, held, peak, at_end = [], 0, 0, []
    for when, name, size, shapes in events:
        held += size
        if len(ends) > last and ends[-1 - last] < when <= ends[-1]:
            peak = max(peak, held)
            if name in KINDS:
                calls.append([KINDS[name], elements(shapes)])
        if name == MARK:
            at_end.append(held)
    return {'calls': sorted(calls), 'base_bytes': at_end[1], 'rise_bytes': peak - at_end[-1 - last], 'grows': at_end[-1] - at_end[1] > (peak - at_end[-1 - last]) / 100}


def profile_kineto(run):
    import torch
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True) as p:
        run()
    events = sorted(p.events(), key=lambda e: e.time_range.start)
    # what is given back outside of operators is an event of its own
    return [[e.time_range.start, e.name, e.self_cpu_memory_usage, e.input_shapes] for e in events]


def profile_legacy(run):
    """PyTorch 1.13 without kineto, as Debian builds it: memory alone, since it loses what gloo's threads do."""
    import torch
    from torch.autograd import ProfilerConfig, ProfilerState, _disable_profiler_legacy, _enable_profiler_legacy
    _enable_profiler_legacy(ProfilerConfig(ProfilerState.CPU, False, True, False, False, False,
                                           torch._C._profiler._ExperimentalConfig()))
    try:
        run()
    finally:
        records = [e for thread in _disable_profiler_legacy() for e in thread]
    origin = records[0]
    events = [[origin.cpu_elapsed_us(e), e.name() if e.kind() == 'push' else '', e.cpu_memory_usage() if e.kind() == 'memory_alloc'
               else 0, []] for e in records if e.kind() in ('push', 'memory_alloc')]
    return sorted(events, key=lambda e: e[0])


def wait_long():
    """Around waits, gloo's threads let go of tensors before the caller does, so that the profiler sees them given back."""
    import torch.distributed.distributed_c10d as c10d
    places = [(c10d.Work, 'wait')]
    try:
        import torch.distributed._functional_collectives as functional
        places.append((functional, 'wait_tensor'))
    except ImportError:
        pass
    for owner, name in places:
        def longer(*args, wait=getattr(owner, name), **kwargs):
            time.sleep(0.002)
            out = wait(*args, **kwargs)
            time.sleep(0.002)
            return out
        setattr(owner, name, longer)


def main(argv):
    at = argv.index('--')
    last = int(os.environ.get('FORELINE_PERIOD', '1'))
    profiled = '--profile' in argv[:at]
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    steps = Steps(int(argv[0]), profiled)
    patch_steps(steps)
    out = {}
    if profiled:
        wait_long()
        kineto = torch.profiler.kineto_available()
        events = (profile_kineto if kineto else profile_legacy)(lambda: run_script(steps, argv[at + 1:]))
        out = summary(events, last)
        if not kineto:
            out['calls'] = None
    else:
        run_script(steps, argv[at + 1:])
        out['ended'] = steps.ended
    out['torch'] = torch.__version__
    with open(argv[1], 'w') as f:
        json.dump(out, f)
    if len(steps.marks) >= steps.most and dist.is_initialized():
        dist.barrier()                                          # nobody leaves while another still receives
    sys.stdout.flush()
    os._exit(0)


main(sys.argv[1:])
