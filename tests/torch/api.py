"""The Python package with PyTorch: models of modules and of captured scripts, and what the command says of the same.

api.py FORELINE"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE, FORELINE = Path(__file__).resolve().parent, Path(sys.argv[1]).resolve()
os.environ['FORELINE_PREFIX'] = str(FORELINE.parent.parent)
sys.path.insert(0, str(HERE.parent.parent / 'python'))
import networks  # first: it says what is missing  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
import foreline as fl  # noqa: E402

SCRIPT = [sys.executable, HERE.parent.parent / 'examples' / 'capture' / 'train_gpt.py', '--layers', '2']
NODE = 'node:gpus=1,type=H100'


def command(*words):
    return json.loads(subprocess.run([str(FORELINE), *words, '--json'], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)


def bare(said):
    return {k: v for k, v in said.items() if k not in ('provenance', 'cpu_s')}


def refused(kind, words, call):
    try:
        call()
    except kind as e:
        assert words in e.message, e.message
        return
    raise AssertionError(f'not refused: {words}')


def a_module_is_planned_and_cut(folder):
    torch.manual_seed(1)
    net = networks.Transformer(2, 16, 2, 32, 8, 40, False, False, nn.GELU())
    before, ids = {k: v.clone() for k, v in net.state_dict().items()}, torch.randint(40, (3, 8))
    model = fl.Model(net, example=ids)
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert model.parameters == sum(p.numel() for p in net.parameters()) and model.tokens_per_sample == 8
    plan = fl.plan(model, 'laptop', algorithm='balanced', stages=2, microbatches=4)
    plan.save(folder / 'plan.json')
    parts = model.exported.split(str(folder / 'plan.json'))
    assert len([name for name, _ in parts.named_children() if name.startswith('submod_')]) == 2
    assert torch.allclose(parts(ids), net(ids), atol=1e-6)
    refused(fl.UsageError, 'example=', lambda: fl.Model(net))
    refused(fl.UsageError, 'got a int', lambda: fl.Model(3))


class Configured(nn.Module):
    """As a model of transformers: it has a configuration."""

    class config:
        @staticmethod
        def to_dict():
            return {'model_type': 'gpt2', 'n_embd': 768, 'n_layer': 12, 'n_head': 12, 'vocab_size': 50257, 'n_positions': 1024}


def a_configured_module_is_its_configuration(_folder):
    assert fl.Model(Configured()).parameters == fl.Model('gpt2-small').parameters


def a_captured_script_is_simulated_and_planned(folder):
    alone = fl.capture(SCRIPT, folder / 'alone')
    assert (alone.world_size, len(alone.classes)) == (1, 1)
    model = fl.Model(alone)
    assert model.spec == str(folder / 'alone' / 'model.json') and model.parameters == 2 * (12 * 256 ** 2 + 13 * 256) + (2 * 2048 + 64 + 2) * 256, model
    made, said = fl.plan(model, NODE, batch=8), command('plan', '--model', model.spec, '--platform', NODE, '--batch', '8')
    assert bare(made.to_dict()) == bare(said)
    both = fl.capture(' '.join(map(str, SCRIPT)), folder / 'both', world_size=2)
    for given in (both, both.path):
        predicted = fl.simulate(given, 'laptop', engine='analytic', timeline=True)
        assert bare(predicted.to_dict()) == bare(command('simulate', both.path, '--platform', 'laptop', '--engine', 'analytic'))
        assert predicted.timeline.traceEvents and predicted.iteration_s > 0
    refused(fl.Error, 'capture of 2 ranks', lambda: fl.Model(both))
    refused(fl.UsageError, '--platform', lambda: fl.simulate(both))
    refused(fl.UsageError, 'progress has no effect', lambda: fl.simulate(both, 'laptop', progress=print))
    refused(fl.UsageError, 'example has no effect', lambda: fl.Model('gpt2-small', example=torch.zeros(1)))
    refused(fl.Error, 'capture.json: No such file', lambda: fl.Capture(folder))
    (folder / 'capture.json').write_text('{\n')
    refused(fl.Error, 'capture.json:2: not JSON', lambda: fl.Capture(folder))


for test in (a_module_is_planned_and_cut, a_configured_module_is_its_configuration, a_captured_script_is_simulated_and_planned):
    with tempfile.TemporaryDirectory() as place:
        test(Path(place))
    print(test.__name__, flush=True)
