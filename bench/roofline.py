#!/usr/bin/python3
"""What GPT-2 124M on one H100 should take, kernel by kernel, before any GPU has run it.

    bench/roofline.py BIN_DIRECTORY BUILD/bench/kernel_times > docs/results/DATE-roofline.md

Launches, FLOP and bytes of products are counted on the null GPU at full size. Bytes of kernels are
what small runs on the double have touched, fitted in rows and channels and tried on a run that was
not fitted. Times are core/cost/kernel.h's; the worker runs the same sources on a GPU.
"""
import os
import re
import subprocess
import sys
import tempfile

LAYERS, HIDDEN, TOKENS, SAMPLES, VOCABULARY, HEAD = 12, 768, 1024, 8, 50257, 64
HOST_S = 4e-6  # a launch by the host: a priori, see the page
PLATFORM = "node:gpus=2,type=H100"
# samples, tokens, channels: fitted on all but the last
SMALL = [(1, 64, 64), (1, 128, 64), (2, 64, 64), (1, 64, 128), (1, 128, 128), (1, 64, 192), (2, 64, 192)]
LATER = re.compile(r"backward|rows|column|weight|accumulate|^add\b|adam|sgd|narrow|values|positions|tokens|residual_norm_b")
UPDATE = re.compile(r"adam|sgd|narrow")
bin_directory, kernel_times = (os.path.abspath(a) for a in sys.argv[1:3])


def call(command, **environment):
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=540)
    if done.returncode:
        sys.exit("%s: %s" % (" ".join(command[:2]), done.stderr.strip().splitlines()[-1]))
    return done.stdout


def run(folder, samples, tokens, hidden, **environment):
    """The lines of the double's log of one step, split at tabs."""
    plan, log = os.path.join(folder, "p.json"), os.path.join(folder, "log")
    foreline = os.path.join(bin_directory, "foreline")
    model = "gpt2-small:dtype=bf16,flash=1,layers=%d,hidden=%d,heads=%d,tokens=%d" % (LAYERS, hidden, hidden // HEAD, tokens)
    call([foreline, "plan", "--algorithm", "balanced", "--platform", PLATFORM, "--stages", "1", "--microbatches", "1",
          "--microbatch-size", str(samples), "--model", model, "-o", plan])
    call([foreline, "run", plan, "--device", "cuda", "--transport", "nccl", "--steps", "1", "--warmup", "0", "--timeout", "300s"],
         FORELINE_WORKER=os.path.join(bin_directory, "foreline-worker-double"), DOUBLE_LOG=log, OPENBLAS_NUM_THREADS="1",
         **environment)
    with open(log + ".0") as lines:
        return [line.rstrip("\n").split("\t") for line in lines], plan


def terms(samples, tokens, hidden):
    rows = samples * tokens
    return [1, rows, hidden, rows * hidden, hidden * hidden, tokens * hidden]


def solve(a, b):
    """Least squares by normal equations, with pivots; columns are scaled to 1 first."""
    scale = [max(abs(r[k]) for r in a) for k in range(len(a[0]))]
    a = [[x / s for x, s in zip(r, scale)] for r in a]
    n = len(scale)
    m = [[sum(r[i] * r[k] for r in a) for k in range(n)] + [sum(r[i] * y for r, y in zip(a, b))] for i in range(n)]
    for i in range(n):
        p = max(range(i, n), key=lambda r: abs(m[r][i]))
        m[i], m[p] = m[p], m[i]
        for r in range(n):
            if r != i:
                f = m[r][i] / m[i][i]
                m[r] = [x - f * y for x, y in zip(m[r], m[i])]
    return [m[i][n] / m[i][i] / scale[i] for i in range(n)]


def bytes_of_kernels(folder):
    """name -> bytes of a step at full size; the worst error on the run that was not fitted."""
    runs = []
    for shape in SMALL:
        moved = {}
        for f in run(folder, *shape, DOUBLE_RACES="1")[0]:
            if f[0] == "#bytes" and not f[5].startswith("("):
                moved[f[5]] = moved.get(f[5], 0) + int(f[3]) + int(f[4])
        runs.append(moved)
    worst, result = (0, ""), {}
    for name in runs[0]:
        x = solve([terms(*s) for s in SMALL[:-1]], [r[name] for r in runs[:-1]])
        guess = sum(a * b for a, b in zip(x, terms(*SMALL[-1])))
        worst = max(worst, (abs(guess / runs[-1][name] - 1), name))
        result[name] = sum(a * b for a, b in zip(x, terms(SAMPLES, TOKENS, HIDDEN)))
    return result, worst


def attention_flop(name):
    """Products of a tile: 2 forward, 3 for rows and 4 for columns backward; half of them is masked."""
    products = 3 if "rows" in name else 4 if "columns" in name else 2
    return LAYERS * products * 2 * SAMPLES * TOKENS * TOKENS * HIDDEN / 2


def main():
    with tempfile.TemporaryDirectory() as folder:
        fitted, worst = bytes_of_kernels(folder)
        log, plan = run(folder, SAMPLES, TOKENS, HIDDEN, DOUBLE_NULL="1")
        rows = []  # name, what, launches, FLOP, bytes, line for kernel_times
        for f in log:
            if f[0] == "#kernel" and int(f[2]) >= 0:
                name, n = f[4], int(f[3])
                size = fitted[name.replace("<%d>" % HEAD, "<64>")]
                if name.startswith("flash"):
                    flop, back = attention_flop(name), int("_" in name)
                    line = "attention bf16 %d %g %g %d %d %d" % (n, flop, size, TOKENS, HEAD, back)
                else:
                    flop, line = 0, "pass bf16 %d %g" % (n, size)
                rows.append([name.replace("<__nv_bfloat16>", ""), n, flop, size, line])
            if f[0] == "#product" and int(f[2]) >= 0:
                n, flop, size, shape = int(f[3]), float(f[4]), float(f[5]), f[6].split()
                m, c, k = (int(x) for x in shape[:3])
                rows.append(["product %d x %d x %d" % (m, c, k), n, flop, size,
                             "product bf16 %d %d %d %d %d %g" % (n, n, m, c, k, size)])
            if f[0] == "#step" and int(f[2]) >= 0:
                copies, traffic = int(f[5]), float(f[9])
        copied = traffic - sum(r[3] for r in rows if r[0].startswith("product"))
        rows.append(["copies and zeros", copies, 0, copied, "pass bf16 %d %g" % (copies, copied)])
        rows = merged(rows)
        seconds = [float(x) for x in subprocess.run([kernel_times, PLATFORM], input="\n".join(r[4] for r in rows) + "\n",
                                                    capture_output=True, text=True, check=True).stdout.split()]
        page(rows, seconds, worst, plan)


def merged(rows):
    """Products of one shape, whichever operand is transposed, are one row."""
    seen = {}
    for name, n, flop, size, line in rows:
        if name in seen:
            old = seen[name]
            n, flop, size = n + old[1], flop + old[2], size + old[3]
            line = "product bf16 %d %d %s %g" % (n, n, " ".join(line.split()[4:7]), size)
        seen[name] = [name, n, flop, size, line]
    return list(seen.values())


def page(rows, seconds, worst, plan):
    foreline = os.path.join(bin_directory, "foreline")
    total, launches, products = sum(seconds), sum(r[1] for r in rows), [r for r in rows if r[0].startswith("product")]
    first = [r for r in rows if not LATER.search(r[0]) and r not in products and r[0] != "copies and zeros"]
    forward = sum(r[1] for r in first) + sum(r[1] for r in products) / 3
    update = sum(s for r, s in zip(rows, seconds) if UPDATE.search(r[0]))
    host = launches * HOST_S
    print("# Roofline of GPT-2 124M on an H100, before the first run\n")
    print("    bench/roofline.py BIN build/bench/kernel_times > docs/results/DATE-roofline.md\n")
    print("Built from `%s`. No GPU has run anything; **nothing here is measured on one**. %s, %d x %d tokens, bf16, one microbatch and"
          % (call([foreline, "--version"]).splitlines()[0], "GPT-2 124M", SAMPLES, TOKENS))
    print("its update. Launches, and FLOP and bytes of products, are counted on the null GPU at this size. Bytes of kernels are the different")
    print("bytes that each has touched on the double (what caches lose comes on top), of %d small runs fitted in rows and channels; on one more"
          % (len(SMALL) - 1))
    print("that was not fitted the worst is %.2g %% off (`%s`). Seconds: the kernel model (docs/reference/kernels.md) for the catalogue's H100, whose" % (100 * worst[0], worst[1]))
    print("constants were fitted to other kernels than these; attention as FlashAttention 2's. FLOP of other kernels are not counted.\n")
    print("| kernel | launches | GFLOP | MB | us | bound by |\n|---|---|---|---|---|---|")
    for s, r in sorted(zip(seconds, rows), key=lambda x: -x[0]):
        intensity = r[2] / r[3] if r[3] else 0
        bound = "launches" if s < 2 * r[1] * 0.6 * 8e-6 else "memory" if intensity < 200 else "arithmetic"
        print("| `%s` | %d | %.4g | %.4g | %.4g | %s |" % (r[0], r[1], r[2] / 1e9, r[3] / 1e6, s * 1e6, bound))
    print("| together | %d | %.4g | %.4g | %.4g | |\n" % (launches, sum(r[2] for r in rows) / 1e9, sum(r[3] for r in rows) / 1e6, total * 1e6))
    tokens = SAMPLES * TOKENS
    print("Device %.2f ms; host %.2f ms, were a launch %.3g us (a guess: 2 to 3 us a kernel, 5 to 7 a call of cuBLAS; the worker's" % (total * 1e3, host * 1e3, HOST_S * 1e6))
    print("`--self-test` measures a kernel's). The host runs ahead, so the longer counts: **%.3g tokens/s** where every microbatch makes an update," % (tokens / max(total, host)))
    print("%.3g with 32 microbatches to one.\n" % (tokens / max(total - update * 31 / 32, host)))
    passes = [r for r in rows if re.match(r"norm|gelu|bias_add|column|accumulate|residual", r[0])]
    ahead = sum(r[3] for r in passes if not LATER.search(r[0]))
    print("As a framework of `plan` and `simulate` (docs/reference/kernels.md) the worker launches %.3g kernels per op of the model forward and %.3g backward (%d ops, update"
          % (forward / ops_of(plan), (launches - forward - 3) / ops_of(plan), ops_of(plan)))
    print("left out); norms, residuals, GELU and biases move %.3g times as much backward as forward, counting what GELU's epilogue reads; the loss moves %.3g"
          % (backward_of(rows, passes, ahead), sum(r[3] for r in rows if r[0].startswith("loss_row")) / (tokens * VOCABULARY)))
    print("bytes a logit. The row `worker` of core/strategy/frameworks.def has these figures. With it, with nothing but the roofline of ops, and as PyTorch's compiler")
    print("would do, the same plan takes, by `foreline simulate`,\n")
    for how in ("worker", "foreline", "compiled"):
        out = call([foreline, "simulate", plan, "--engine", "analytic", "--framework", how])
        print("    --framework %-9s %s" % (how, " ".join(re.search(r"iteration +(.*)", out).group(1).split()) + ", "
                                           + re.search(r"samples/s, (.*? tokens/s)", out).group(1)))
    print("\nWhat the model does not know: which algorithms cuBLASLt has for epilogues and for rows of logits that are 50,304 numbers apart; what caches keep")
    print("between the passes of the loss; blocks that wait for each other in a small grid.")
    print("\nTo be compared with the first measurement: `bench/gpu.sh` writes it.")


def backward_of(rows, passes, ahead):
    """Bytes of passes backward over those forward; what GELU was given is written and read by products' epilogues."""
    gelu = LAYERS * SAMPLES * TOKENS * 4 * HIDDEN * 2
    return (sum(r[3] for r in passes) - ahead + gelu) / (ahead + gelu)


def ops_of(plan):
    out = call([os.path.join(bin_directory, "foreline"), "plan", "export", "--to", "csv", plan])
    return len(out.splitlines()) - 1


main()
