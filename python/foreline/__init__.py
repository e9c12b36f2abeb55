"""foreline: plan, predict and run distributed training.

    import foreline as fl

    model = fl.Model("llama3-8b", tokens=4096)
    cluster = fl.Platform("rail", nodes=2, gpus=8, type="H100")
    plan = fl.plan(model, cluster, batch=256)
    fl.simulate(plan).tokens_per_s

docs/reference/python.md has a tutorial. Model, Platform, Plan, plan() and simulate() call libforeline; capture(), sweep(),
compare(), run(), calibrate() and what says so start the command foreline beside it. foreline.export, which needs PyTorch, makes
models of modules.
"""
from ._library import Error, InfeasibleError, Stopped, UsageError
from ._library import version as library_version
from .captures import Capture, capture
from .inputs import Model, Platform
from .plans import Plan, plan, simulate
from .results import Campaign, CampaignTable, Comparison, Measurement, Record, Sweep, Timeline
from .studies import calibrate, campaign, compare, run, sweep

for _error in (Error, InfeasibleError, Stopped, UsageError):
    _error.__module__ = "foreline"

__all__ = ["Model", "Platform", "Plan", "plan", "simulate", "Capture", "capture", "sweep", "compare", "campaign", "run", "calibrate",
           "Measurement", "Timeline", "Sweep", "Comparison", "Campaign", "CampaignTable", "Record", "Error", "UsageError",
           "InfeasibleError", "Stopped", "library_version"]
