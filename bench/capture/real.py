"""One rank of a training script for real: real.py [--profile FILE] SCRIPT ARGUMENTS... With --profile, what torch's profiler
saw goes to FILE as JSON: calls of gloo in the last step, and the peak of host allocations. Needs a torch with kineto."""
import json
import runpy
import sys

import torch


def profiled(path, run):
    """Counts of the last whole step, between two ends of optimizer steps, and the peak of memory."""
    marks = []
    init = torch.optim.Optimizer.__init__

    def optimizer_init(self, *args, **kwargs):
        init(self, *args, **kwargs)
        kind, step = type(self), type(self).step
        if 'step' in kind.__dict__ and not hasattr(step, 'marked'):
            def marked(self, *args, **kwargs):
                marks.append(1)
                out = step(self, *args, **kwargs)
                marks.pop()
                if not marks:
                    with torch.autograd.profiler.record_function('step ends'):
                        pass
                return out
            marked.marked = marked.hooked = True
            kind.step = marked
    torch.optim.Optimizer.__init__ = optimizer_init
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True) as p:
        run()
    events = sorted(p.events(), key=lambda e: e.time_range.start)
    ends = [e.time_range.start for e in events if e.name == 'step ends']
    calls, held, peak, at_end = {}, 0, 0, []
    for e in events:
        held += e.self_cpu_memory_usage     # what is given back outside of operators is an event of its own
        if e.name == 'step ends':
            at_end.append(held)
        if ends[-2] < e.time_range.start <= ends[-1]:
            peak = max(peak, held)
            if e.name.startswith('gloo:'):
                calls[e.name] = calls.get(e.name, 0) + 1
    # What gloo's threads give back is seen by nobody: between steps it adds up, and is taken off.
    with open(path, 'w') as f:
        json.dump({'calls': calls, 'peak_bytes': peak - (at_end[-2] - at_end[1])}, f)


def main(words):
    torch.set_num_threads(1)
    out = None
    if words[0] == '--profile' and not torch.profiler.kineto_available():
        with open(words[1], 'w') as f:
            json.dump({'calls': None, 'peak_bytes': None}, f)
        return
    if words[0] == '--profile':
        out, words = words[1], words[2:]
    sys.argv = words
    run = lambda: runpy.run_path(words[0], run_name='__main__')
    profiled(out, run) if out else run()


main(sys.argv[1:])
