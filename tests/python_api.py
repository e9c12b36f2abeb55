"""The Python package against the command: the same inputs, the same documents. Usage: python_api.py PREFIX DRAWS"""
import concurrent.futures
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

PREFIX, DRAWS = Path(sys.argv[1]).resolve(), int(sys.argv[2])
os.environ["FORELINE_PREFIX"] = str(PREFIX)
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
import foreline as fl # pylint: disable=wrong-import-position

BALANCED = {"algorithm": "balanced", "stages": 2, "microbatches": 4}


def draw(rng):
    """A model, a platform, settings of a plan and of its simulation; some are impossible."""
    model = rng.choice(["gpt-tiny", f"gpt2-small:layers={rng.choice([2, 4])}", "llama3-8b:layers=2,tokens=256",
                        "mixtral-8x7b:layers=2,tokens=128", "gpt2-medium:layers=3,dtype=bf16"])
    platform = rng.choice(["laptop", "two-racks", f"rail:nodes=2,gpus={rng.choice([2, 4])},type=H100",
                           f"node:gpus={rng.choice([2, 4])},type=A100", "leaf-spine:nodes=2,gpus=2",
                           "two-racks@uplink.bandwidth=10Gbps,devices=8"])
    plan = {"microbatches": rng.choice([2, 4, 6, 8]), "microbatch_size": rng.choice([1, 2])}
    if rng.random() < 0.75:
        plan.update(algorithm=rng.choice(["balanced", "uniform", "hierarchical"]), stages=rng.choice([1, 2, 4]),
                    replicas=rng.choice([1, 2]), schedule=rng.choice(["1f1b", "gpipe", "zb-h1"]))
    else:
        plan.update(tp=rng.choice([1, 2]), stages=1, zero=1, finalists=2)
    if rng.random() < 0.3:
        plan.update(framework=rng.choice(["megatron", "compiled", "eager"]))
    simulate = {"engine": rng.choice(["analytic", "simgrid"])}
    if rng.random() < 0.3:
        simulate.update(jitter="5%", seed=rng.randrange(1, 99))
    if rng.random() < 0.2:
        simulate.update(slow="0=2")
    if rng.random() < 0.2:
        simulate.update(batch=rng.choice([6, 16, 64]))
    if rng.random() < 0.3 and platform.startswith("rail"):
        simulate.update(platform=platform + ",nic=100Gbps")
    return model, platform, plan, simulate


def words(settings):
    return [f"--{k.replace('_', '-')}={v}" for k, v in settings.items()]


def command(*line):
    done = subprocess.run([PREFIX / "bin" / "foreline", *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    said = [l for l in done.stderr.splitlines() if l.startswith(f"foreline {line[0]}: ")]
    return json.loads(done.stdout) if done.returncode == 0 else said[-1].split(": ", 1)[1]


def bare(said, *without):
    return {k: v for k, v in said.items() if k not in ("provenance", "cpu_s", *without)}


def asked(call):
    try:
        return call()
    except fl.Error as e:
        return e.message


class Equal(unittest.TestCase):
    """What the command says."""

    def test_drawn_inputs_give_what_the_command_prints(self):
        rng, plans, refused = random.Random(46), 0, 0
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            for i in range(DRAWS):
                model, platform, plan, simulate = draw(rng)
                with self.subTest(i=i, model=model, platform=platform, plan=plan, simulate=simulate):
                    said = command("plan", "--model", model, "--platform", platform, *words(plan), "-o", "cli.json", "--json")
                    made = asked(lambda: fl.plan(model, platform, **plan))
                    if isinstance(said, str):
                        self.assertEqual(said.replace("--", ""), made.replace("--", ""))
                        refused += 1
                        continue
                    self.assertEqual(bare(said), bare(made.to_dict()))
                    made.save("api.json")
                    files = [bare(json.loads(Path(f).read_text(encoding="utf-8"))) for f in ("cli.json", "api.json")]
                    self.assertEqual(*files)
                    said = command("simulate", "cli.json", *words(simulate), "--json")
                    read = asked(lambda: fl.simulate("cli.json", **simulate))
                    kept = asked(lambda: fl.simulate(made, **simulate))
                    if isinstance(said, str):
                        self.assertEqual([said, said], [read, kept])
                        continue
                    self.assertEqual(bare(said), bare(read.to_dict()))
                    self.assertEqual(bare(said, "plan", "plan_sha256"), bare(kept.to_dict()))
                    plans += 1
        print(f"{DRAWS} draws: {plans} plans and simulations as the command's, {refused} refused alike", file=sys.stderr)
        self.assertGreater(plans, DRAWS / 2)

    def test_sweeps_are_those_of_the_command(self):
        experiment = {"model": fl.Model("gpt-tiny"), "platform": fl.Platform("laptop"), "name": "sweep",
                      "plan": {"algorithm": "balanced", "stages": 2, "microbatches": [2, 4], "schedule": ["1f1b", "gpipe"]}}
        told = []
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            swept = fl.sweep(experiment, database="kept.db", progress=lambda done, all: told.append((done, all)), workers=1)
            table = subprocess.run([PREFIX / "bin" / "foreline", "sweep", "--export=csv", "s.yml"], check=False,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertNotEqual(table.returncode, 0)
            Path("s.yml").write_text("name: sweep\nmodel: gpt-tiny\nplatform: laptop\nplan:\n  algorithm: balanced\n  stages: 2\n"
                                     "  microbatches: [2, 4]\n  schedule: [1f1b, gpipe]\n", encoding="utf-8")
            of_file = fl.sweep("s.yml")
        self.assertEqual(swept.to_dict(), of_file.to_dict())
        self.assertEqual((len(swept), swept.axes), (4, ["plan.microbatches", "plan.schedule"]))
        best = swept.best(**{"plan.microbatches": 4})
        self.assertEqual(best.samples_per_s, max(p.samples_per_s for p in swept if p["plan.microbatches"] == 4))
        plan = fl.plan("gpt-tiny", "laptop", **BALANCED, schedule="1f1b")
        self.assertEqual(fl.simulate(plan, engine="analytic").iteration_s,
                         swept.best(**{"plan.microbatches": 4, "plan.schedule": "1f1b"}).iteration_s)
        xml.etree.ElementTree.fromstring(swept.svg())

    def test_campaigns_are_those_of_the_command(self):
        plan = fl.plan("gpt2-small", "two-racks", algorithm="balanced", stages=1, replicas=16, microbatches=16)
        said = fl.campaign(plan, "1T", recovery="shrink", spares=1)
        self.assertEqual((said.recovery, said.spares, said.tokens), ("shrink", 1, 1e12))
        self.assertTrue(said.p5_s <= said.p50_s <= said.p95_s and 0 < said.effective < 1)
        xml.etree.ElementTree.fromstring(said.svg())
        with self.assertRaises(fl.UsageError):
            fl.campaign(plan, "1T", failures="llama4")

    def test_campaigns_over_a_quantity_are_the_table_of_the_command(self):
        plan = fl.plan("gpt2-small", "two-racks", algorithm="balanced", stages=1, replicas=16, microbatches=16)
        with tempfile.TemporaryDirectory() as folder:
            plan.save(f"{folder}/p.json")
            for over, x in (("interval", "interval_s"), ("spares", "spares"), ("size", "devices")):
                said = fl.campaign(plan, "1T", over=over, seed=2)
                table = subprocess.run([PREFIX / "bin" / "foreline", "campaign", f"{folder}/p.json", "--tokens", "1T", "--over", over, "--seed", "2"],
                                       check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
                self.assertEqual(table[0].split("\t"), list(said.rows[0]))
                self.assertEqual([line.split("\t") for line in table[1:]], [[f"{v:g}" for v in row.values()] for row in said])
                self.assertEqual((x, len(said)), (table[0].split("\t")[0], len(table) - 1))
                xml.etree.ElementTree.fromstring(said.svg())
                self.assertIn("fewest days", repr(said))
        with self.assertRaises(fl.UsageError):
            fl.campaign(plan, "1T", over="days")

    def test_runs_are_compared_with_predictions(self):
        plan = fl.plan("gpt-tiny:layers=2,hidden=32,tokens=32", "laptop", **BALANCED)
        predicted, measured = fl.simulate(plan), fl.run(plan, steps=3, transport="local")
        self.assertEqual(measured.engine, "local")
        self.assertEqual(len(measured.iterations_s), 3)
        compared = fl.compare(predicted, measured)
        self.assertEqual([p.predicted_s for p in compared.plans], [predicted.iteration_s])
        self.assertAlmostEqual(compared.plans[0].error, predicted.iteration_s / measured.iteration_s - 1)
        xml.etree.ElementTree.fromstring(compared.svg())


class Errors(unittest.TestCase):
    """Exceptions carry what the command would say."""

    def test_unknown_names_and_settings_are_usage(self):
        for call, hint in ((lambda: fl.Model("gpt2-smal"), "gpt2-small"), (lambda: fl.Platform("two-rack"), "two-racks"),
                           (lambda: fl.plan("gpt-tiny", "laptop", bacth=8), "batch"),
                           (lambda: fl.simulate(fl.plan("gpt-tiny", "laptop", **BALANCED), enigne="x"), "engine")):
            with self.assertRaises(fl.UsageError) as caught:
                call()
            self.assertIn(hint, caught.exception.message)
            self.assertEqual((caught.exception.file, caught.exception.line), (None, None))

    def test_what_only_the_command_has_is_refused(self):
        for name in ("jitter", "samples", "rank_by", "tokens", "train_tokens", "top", "all_rows", "candidates", "output", "json"):
            with self.assertRaises(fl.UsageError):
                fl.plan("gpt-tiny", "laptop", **BALANCED, **{name: 1})
        for only in ({"export": "goal:x"}, {"limit": "size=2"}, {"train_tokens": 1e12}):
            with self.assertRaises(fl.UsageError):
                fl.simulate(fl.plan("gpt-tiny", "laptop", **BALANCED), **only)

    def test_files_are_named_with_the_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "bad.json"
            path.write_text('{"format": "foreline-plan",\n "version": ]', encoding="utf-8")
            with self.assertRaises(fl.Error) as caught:
                fl.Plan(path)
            self.assertEqual((caught.exception.status, caught.exception.file, caught.exception.line), ("parse", str(path), 2))
            path = Path(folder) / "bad.yml"
            path.write_text("model: gpt-tiny\nplatform: nowhere\n", encoding="utf-8")
            with self.assertRaises(fl.Error) as caught:
                fl.sweep(path)
            self.assertEqual((caught.exception.file, caught.exception.line), (str(path), 2))

    def test_sweeps_of_dictionaries_name_the_key(self):
        good = {"model": "gpt-tiny", "platform": "laptop"}
        for wrong, where in (({**good, "platform": "nowhere"}, "experiment['platform']: "),
                             ({**good, "plan": {"algorithm": "balanced", "microbatch_size": [1, "x"]}}, "experiment['plan']['microbatch_size']: "),
                             ({**good, "plan": {"algorithm": "balanced"}, "cases": [{"plan.stages": 1}, {"plan.stagse": 1}]}, "experiment['cases'][1]: "),
                             ({**good, "plan.stagse": 1}, "experiment['plan.stagse']: "),
                             ({"platform": "laptop"}, "experiment: ")):
            with self.assertRaises(fl.Error) as caught:
                fl.sweep(wrong)
            self.assertTrue(caught.exception.message.startswith(where), caught.exception.message)
            self.assertNotIn(".yml", caught.exception.message)

    def test_what_does_not_fit_is_infeasible(self):
        with self.assertRaises(fl.InfeasibleError):
            fl.plan("llama3-70b", "node:gpus=2,type=A100", batch=2, stages=1, recompute="none")

    def test_a_plan_is_simulated_on_platforms_with_its_devices(self):
        plan = fl.plan("gpt-tiny", "laptop", **BALANCED)
        self.assertEqual(fl.simulate(plan, "laptop").iteration_s, fl.simulate(plan).iteration_s)
        with self.assertRaisesRegex(fl.Error, "does not fit two-racks"):
            fl.simulate(plan, "two-racks")


class Stopping(unittest.TestCase):
    """Progress, and ways to end a long call."""

    LONG = ("gpt2-medium", "rail:nodes=4,gpus=8,type=H100")

    def test_a_search_tells_and_stops_with_the_best_so_far(self):
        told = []

        def progress(done, total):
            told.append((done, total))
            return len(told) < 3
        plan = fl.plan(*self.LONG, batch=64, finalists=1, progress=progress)
        self.assertEqual([t[1] for t in told], [0, 0, 0])
        self.assertEqual(sorted(told), told)
        self.assertGreater(plan.iteration_s, 0)

    def test_what_a_callback_raises_is_raised(self):
        with self.assertRaises(ZeroDivisionError):
            fl.plan(*self.LONG, batch=64, finalists=1, progress=lambda done, total: 1 / 0)

    def test_ctrl_c_ends_calls_of_the_library_and_of_the_command(self):
        large = fl.plan(*self.LONG, algorithm="balanced", stages=8, replicas=4, microbatches=4096)
        with self.assertRaises(fl.Stopped):
            fl.simulate(large, no_fold=True, progress=lambda done, total: False)
        experiment = {"model": "gpt2-medium", "platform": self.LONG[1], "engine": "simgrid",
                      "plan": {"batch": list(range(64, 1024, 64))}}

        def interrupt(done, total):
            os.kill(os.getpid(), signal.SIGINT)
        for call in (lambda: fl.plan(*self.LONG, batch=64, finalists=1, progress=interrupt),
                     lambda: fl.simulate(large, no_fold=True, progress=interrupt),
                     lambda: fl.sweep(experiment, progress=interrupt)):
            with self.assertRaises(KeyboardInterrupt):
                call()
        self.assertEqual(children(), [])
        self.assertGreater(fl.plan("gpt-tiny", "laptop", **BALANCED).iteration_s, 0)


def children():
    out = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            out.append(path.parent.name)
    return out


class Behaviour(unittest.TestCase):
    """Threads, memory, documents."""

    def test_eight_threads_get_equal_results(self):
        plan = fl.plan("gpt-tiny", "laptop", **BALANCED)

        def work(_):
            own = fl.plan("gpt-tiny", "laptop", **BALANCED)
            return [bare(fl.simulate(p, engine=e).to_dict()) for p in (plan, own) for e in ("analytic", "simgrid")]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            found = list(pool.map(work, range(16)))
        self.assertTrue(all(f == found[0] for f in found))
        self.assertEqual(found[0][0], bare(fl.simulate(plan, engine="analytic").to_dict()))

    def test_a_thousand_calls_do_not_grow_memory(self):
        def pages():
            return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])

        def work(n):
            for _ in range(n):
                plan = fl.plan("gpt-tiny", "laptop", **BALANCED)
                fl.simulate(plan, engine="analytic")
                asked(lambda: fl.Model("gpt2-smal"))
        work(200)
        before = pages()
        work(1000)
        self.assertLess((pages() - before) * os.sysconf("SC_PAGE_SIZE"), 1 << 20)

    def test_documents_are_attributes_tables_and_pictures(self):
        plan = fl.plan("gpt2-small:layers=4", "two-racks", batch=32, tp=1, pipeline_parallel=1, finalists=2)
        self.assertEqual(plan.candidates[0].iteration_s, plan.iteration_s)
        predicted = fl.simulate(plan, timeline=True)
        self.assertEqual(predicted.ranks[0].name, predicted.to_dict()["ranks"][0]["name"])
        self.assertEqual(predicted.get("price_per_hour"), None)
        self.assertIn("iteration_s", dir(predicted))
        with self.assertRaises(AttributeError):
            print(predicted.iterations)
        for result in (plan, predicted, predicted.timeline, fl.simulate(plan)):
            root = xml.etree.ElementTree.fromstring(result.svg())
            self.assertTrue(root.tag.endswith("svg"))
            xml.etree.ElementTree.fromstring(f"<p>{result._repr_html_()}</p>")
        ends = [e["ts"] + e["dur"] for e in predicted.timeline.traceEvents if e["ph"] == "X"]
        self.assertAlmostEqual(max(ends) / 1e6, predicted.iteration_s, places=9)

    def test_tables_and_plots_take_what_is_installed(self):
        predicted = fl.simulate(fl.plan("gpt-tiny", "laptop", **BALANCED))
        try:
            import pandas # pylint: disable=unused-import
            self.assertEqual(list(predicted.to_pandas()["name"]), [r.name for r in predicted.ranks])
        except ImportError:
            with self.assertRaises(ImportError):
                predicted.to_pandas()
        try:
            import matplotlib
            matplotlib.use("Agg")
            self.assertEqual(predicted.plot().get_xlabel(), "ms")
        except ImportError:
            self.assertEqual(predicted.plot().svg(), predicted.svg())

    def test_plots_take_the_options_of_the_command(self):
        predicted = fl.simulate(fl.plan("gpt-tiny", "laptop", **BALANCED), timeline=True)
        if not shutil.which("gnuplot"):
            self.skipTest("gnuplot is not installed")
        picture = predicted.plot(style="paper", label={"compute": "work"})
        self.assertIn(">work<", picture.svg())
        self.assertRegex(picture.svg()[:300], 'width="32[12]" ') # 8.5 cm
        self.assertEqual(picture.svg(), picture._repr_html_())
        with tempfile.TemporaryDirectory() as folder:
            for result, options, name in ((predicted, {"kind": "memory", "legend": "none"}, "memory.pdf"),
                                          (predicted.timeline, {"style": "slide"}, "timeline.png"),
                                          (fl.sweep({"model": "mlp", "platform": "laptop", "plan": {
                                              "algorithm": "balanced", "microbatches": [4, 8], "stages": [1, 2]}}),
                                           {"x": "plan.microbatches", "by": "plan.stages"}, "sweep.svg"),
                                          (fl.campaign(fl.plan("gpt-tiny", "laptop", **BALANCED), "1T"), {"note": "none"}, "parts.svg")):
                result.plot(**options).save(os.path.join(folder, name))
                self.assertGreater(os.path.getsize(os.path.join(folder, name)), 1000)
                self.assertTrue(os.path.exists(os.path.join(folder, os.path.splitext(name)[0] + ".tsv")))
        with self.assertRaisesRegex(fl.UsageError, "expected paper, slide or web"):
            predicted.plot(style="poster")

    def test_configurations_of_hugging_face_are_models(self):
        config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
                  "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 1000,
                  "max_position_embeddings": 128, "torch_dtype": "bfloat16"}

        class Config:
            """As transformers has them."""

            def to_dict(self):
                return config
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XDG_CACHE_HOME"] = folder
            models = [fl.Model(config, tokens=64), fl.Model(Config(), tokens=64)]
            self.assertEqual(models[0].to_dict(), models[1].to_dict())
            self.assertEqual(models[0].tokens_per_sample, 64)
            self.assertGreater(fl.plan(models[0], "laptop", **BALANCED).tokens_per_s, 0)
            del os.environ["XDG_CACHE_HOME"]

    def test_platforms_are_edited_link_by_link(self):
        cluster = fl.Platform("two-racks")
        self.assertEqual((len(cluster), cluster.devices[0]), (16, "r0n0g0"))
        slow = cluster.edit({"uplink.bandwidth": "1Gbps"}).edit(devices=8)
        self.assertEqual((len(slow), slow.spec), (8, "two-racks@uplink.bandwidth=1Gbps,devices=8"))
        self.assertEqual(fl.Platform("rail", nodes=2, gpus=4).spec, "rail:nodes=2,gpus=4")
        self.assertIn("tiers", cluster.to_dict())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
