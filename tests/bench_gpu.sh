#!/bin/sh
# bench/gpu.sh from its first line to its last on a machine without a GPU: the double computes, and
# stubs stand for nvidia-smi, compute-sanitizer, nccl-tests, PyTorch and the calibration, whose matrices
# are too large for a host. What a part does when something is missing or fails is tried, too.
# Usage: bench_gpu.sh FORELINE WORKER_DOUBLE BENCH_GPU_SH
set -eu
foreline=$(realpath "$1") worker=$(realpath "$2") bench=$(realpath "$3")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "FAIL: $*" >&2
    [ ! -f out/outcomes.md ] || cat out/outcomes.md >&2
    exit 1
}
stub() { # stub NAME: its text from the standard input
    { echo '#!/bin/sh' && cat; } >"$1"
    chmod +x "$1"
}

# ---- what a bare machine has, and what bench/gpu.sh pack leaves

mkdir bin dir nccl-tests python python/torch
cp "$bench" "$(dirname "$bench")/gpt2_torch.py" dir
stub dir/foreline-worker-cuda <<STUB
[ "\$1" != --self-test ] || [ -z "\${STUB_SLOW:-}" ] || exec sleep 60
case "\$1 \${2:-}" in # the rest is too much for a host
    "--self-test cudnn") ;;
    "--self-test cudnn-speed") export DOUBLE_NULL=1 ;;
    --self-test*) set -- --self-test layers ;;
esac
exec "$worker" "\$@"
STUB
stub dir/foreline <<STUB
[ "\$1" = calibrate ] || exec "$foreline" "\$@"
while [ "\$1" != -o ]; do shift; done
"$foreline" topology generate node:gpus=2,type=H100 -o h100.xml
sed 's/\(id="type" value="\)[^"]*/\1cuda/' h100.xml >"\$2"
STUB
stub bin/nvidia-smi <<'STUB'
gpus=${DOUBLE_GPUS:-2}
case "$*" in
    -L) [ "$gpus" -gt 0 ] || { echo "No devices were found"; exit 6; }
        for k in $(seq 0 $((gpus - 1))); do echo "GPU $k: NVIDIA H100 80GB HBM3 (UUID: GPU-$k)"; done ;;
    *name,uuid*) echo "index, name"; echo "0, NVIDIA H100 80GB HBM3" ;;
    *query-gpu=name*) echo "${STUB_NAME:-NVIDIA H100 80GB HBM3}" ;;
    "topo -m") echo "GPU0 X NV18" ;;
    *) exit 1 ;;
esac
STUB
stub compute-sanitizer <<'STUB'
echo "========= COMPUTE-SANITIZER"
shift 4
case $1 in *worker*) "$@" >/dev/null && echo "========= ERROR SUMMARY: 0 errors" ;; esac
STUB
stub nsys <<'STUB'
[ "$1" = profile ] && shift 7 && exec "$@"
cat <<'CSV'
Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
10.0,8640000,6,1440000,1,1,2,3,adam(kernel_update)
5.0,3847800,150,25652,1,1,2,3,"void norm<__nv_bfloat16>(kernel_norm, void *)"
5.0,17880000,72,248333,1,1,2,3,"void flash_columns<64u>(kernel_attention, const void *, void *)"
40,60000000,882,2,1,1,2,3,"nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNN"
CSV
STUB
for kind in all_reduce reduce_scatter all_gather sendrecv; do
    stub nccl-tests/${kind}_perf <<'STUB'
cat <<'TABLE'
# nThread 1 nGpus 2 minBytes 4096 maxBytes 1073741824 step: 4(factor) warmup iters: 3 iters: 10
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        4096          1024     float     sum      -1    12.30    0.33    0.33      0    12.10    0.34    0.34      0
     1048576        262144     float     sum      -1    22.50   46.60   46.60      0    22.10   47.40   47.40      0
TABLE
STUB
done
cat >python/torch/__init__.py </dev/null
stub bin/python3 <<'STUB'
[ "$1" != -c ] || exit 0
[ -z "${STUB_TORCH:-}" ] || { echo "$STUB_TORCH" >&2; exit 1; }
echo "460000 PyTorch 2.9, compiled, 50304 classes"
echo "300000 PyTorch 2.9, not compiled, 50257 classes"
STUB
PATH=$work/bin:$PATH
export PATH FORELINE_BENCH_MODEL=gpt-tiny:layers=4,hidden=32,heads=4 FORELINE_BENCH_BATCH=1 \
    FORELINE_BENCH_LARGE=gpt-tiny:layers=2,hidden=64,heads=4,tokens=32 FORELINE_BENCH_STEPS=3 DOUBLE_GPUS=2
part() { # part NAME STATUS WORDS: on what `run` has left in out/
    status=0
    sh dir/gpu.sh part "$1" "$work/dir" "$work/out" >part.log 2>&1 || status=$?
    [ $status -eq "$2" ] || fail "part $1: status $status, expected $2: $(cat part.log)"
    grep -q -- "$3" part.log || fail "part $1 does not say '$3': $(cat part.log)"
}
outcome() { # outcome PART WORDS
    grep -q "^| $1 | $2" out/outcomes.md || fail "$1 is not '$2'"
}

# ---- pack: the command with its libraries runs from there, and the CPU's losses are in it

mkdir workers
cp "$worker" workers/foreline-worker-cuda && cp "$(dirname "$foreline")/foreline-worker" workers
sh "$bench" pack "$(dirname "$foreline")" workers packed >pack.log 2>&1 || fail "pack: $(cat pack.log)"
packed/lib/ld.so --library-path packed/lib packed/foreline topology show laptop | grep -q '^# 4 devices' ||
    fail "the packed command does not run"
cp packed/cpu.json packed/roofline.md dir

# ---- a machine with everything

PATH=$work:$PATH DOUBLE_CUDNN=91900 FORELINE_NCCL_TESTS=$work/nccl-tests FORELINE_BENCH_SECONDS=1000 FORELINE_BENCH_PATIENCE=4 \
    sh dir/gpu.sh run "$work/dir" "$work/out" >run.log 2>&1 || fail "run: $(cat run.log)"
for name in machine selftest gpt2 torch calibrate several kernels cudnn nccl large memcheck racecheck curves; do
    outcome $name complete
done
tar -tzf out.tar.gz | grep -q '^out/README.md$' || fail "nothing is packed"
for words in 'ours / theirs' 'bytes, the same parameters' '| predicted from the profile |' '| 2 | replicas --bucket 25MB |' \
    '| 2 | tensor-parallel | [0-9.e+-]* | [0-9.e+-]* | [-+0-9.]* % | [0-9.e+-]* | [-+0-9.]* % |' '(goal, compiled: 1.00)' \
    '| `adam` | 1 | 1440 | 1440 | 1.00 |' '| `norm` | 25 | 641.3 | 641.3 | 1.00 |' '| `flash_columns<64>` | 12 | 2980 | 2980 | 1.00 |' \
    '| `products` | 147 | [0-9.e+]* | 1e+04 |' 'ERROR SUMMARY: 0 errors' 'Llama.*1.*4,096.*twice' 'loss .* ok$' '2 stages over nccl: .* equal' \
    '| several-2-replicasbucket25MB | all-reduce | [0-9]* | [0-9.e+]* | [0-9.e+]* | [0-9.]* |'; do
    grep -q -- "$words" out/README.md || fail "the page does not have '$words': $(cat out/README.md)"
done
! grep -q "$work" out/README.md || fail "the page names a directory of this machine"
cat out/outcomes.md

# ---- a machine that lacks things, and parts that fail or take too long

part nccl 77 "nccl-tests are not installed"
part memcheck 77 "compute-sanitizer is not installed"
part cudnn 77 "libcudnn.so.9.*found"
part kernels 77 "nsys is not installed"
STUB_TORCH="CUDA out of memory" part torch 1 "CUDA out of memory"
STUB_NAME="NVIDIA T4" part several 77 "the catalogue has no GPU like"
DOUBLE_GPUS=1 part several 77 "one GPU"
DOUBLE_GPUS=1 part nccl 77 "one GPU"
DOUBLE_GPUS=1 part calibrate 77 "one GPU"
DOUBLE_DRIVER=12040 part gpt2 1 "CUDA.*12.4.*worker.*CUDA.*13.0"
mkdir nccl-tests/src && echo 'all: ; @echo no compiler >&2; exit 1' >nccl-tests/src/Makefile
stub bin/nvcc </dev/null
FORELINE_NCCL_TESTS=$work/nccl-tests/src part nccl 1 "nccl-tests: .*"
mv dir/cpu.json . && part curves 77 "no losses of the CPU"
STUB_SLOW=1 FORELINE_BENCH_SECONDS=8 sh dir/gpu.sh run "$work/dir" "$work/out" >run.log 2>&1 &&
    fail "parts without time succeed"
outcome selftest stopped
outcome curves "skipped | 0 | no time is left of 8 s"
status=0
DOUBLE_GPUS=0 sh dir/gpu.sh run "$work/dir" "$work/out" >run.log 2>&1 || status=$?
[ $status = 77 ] || fail "without a GPU: status $status"
grep -q 'no GPU: No devices were found' run.log || fail "without a GPU: $(cat run.log)"
sh dir/gpu.sh 2>&1 | grep -q usage || fail "no usage"
