#!/bin/sh
# oneDNN multiplies where it is installed and the processor has AVX2, else OpenBLAS, whose kernels are those of the
# processor unless the user names others, also for workers that are started by hand or have inherited the choice of
# another machine. Slow products are warned of.
# Usage: core_type.sh FORELINE
set -u
tool=$1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
unset OPENBLAS_CORETYPE FORELINE_CORETYPE
fail() {
    echo "FAIL: $*" >&2
    exit 1
}
has() {
    grep -qsw "$1" /proc/cpuinfo
}
"$tool" plan --algorithm balanced --model gpt-tiny:layers=1,hidden=8,heads=1,tokens=4 --platform laptop \
    --microbatches 1 --stages 1 -o p.json >out 2>&1 || fail "plan: $(cat out)"
says() { # says KERNELS WHAT: the result and the summary in `out`
    grep -q "^computed by OpenBLAS [0-9.]*, $1 kernels$" out || fail "$2: $(grep 'computed by' out), not $1"
    grep -q "\"blas\": \"OpenBLAS [0-9.]*, $1 kernels\"" m.json || fail "$2: $(grep blas m.json) in the result"
}
run() {
    "$tool" run p.json --steps 1 -o m.json "$@" >out 2>err || fail "run: $(cat err)"
}
if has avx2 && /sbin/ldconfig -p | grep -q 'libdnnl\.so\.[23] '; then
    kernels=AVX2
    ! has avx512f || ! has avx512bw || ! has avx512dq || ! has avx512vl || kernels=AVX-512
    run
    grep -q "^computed by oneDNN [0-9.]*, $kernels kernels$" out || fail "by default: $(grep 'computed by' out)"
    ! has avx512f || DNNL_MAX_CPU_ISA=AVX2 run # at half the speed
    ! grep 'install libdnnl2' err || fail "advises what is in use"
    ! grep -q 'slow BLAS' err || grep -q 'oneDNN.*stop other programs' err || fail "no cause: $(cat err)"
fi
DNNL_MAX_CPU_ISA=SSE41 && export DNNL_MAX_CPU_ISA # oneDNN has no kernels then
run
grep -q "^computed by OpenBLAS [0-9.]*, .* kernels$" out || fail "without oneDNN: $(grep 'computed by' out)"
if has avx512f; then
    OPENBLAS_CORETYPE=Nehalem run
    grep -q 'warning: rank 0: slow BLAS: .* (OpenBLAS .* Nehalem kernels); install libdnnl2' err || fail "no warning: $(cat err)"
fi
if has GenuineIntel && has avx512f && has avx512cd && has avx512bw && has avx512dq && has avx512vl; then
    kernels=SkylakeX
elif has GenuineIntel && has avx2 && has fma; then
    kernels=Haswell
else
    echo "skipped: OpenBLAS chooses for this processor"
    exit 77
fi
run
says $kernels "by default"
run --transport local
says $kernels "as threads"
OPENBLAS_CORETYPE=Nehalem && export OPENBLAS_CORETYPE
run
says Nehalem "as the user says"
FORELINE_CORETYPE=Nehalem && export FORELINE_CORETYPE
run
says $kernels "as another machine chose"
unset OPENBLAS_CORETYPE FORELINE_CORETYPE

# By hand: the line that is told, in an environment with nothing else.
: >err
"$tool" run p.json --steps 1 -o m.json --launcher none >out 2>err &
pid=$!
until grep -q 'foreline-worker' err; do
    kill -0 $pid 2>/dev/null || fail "ended: $(cat err)"
    sleep 0.1
done
line=$(sed -n 's/^  FORELINE_LAUNCHER/FORELINE_LAUNCHER/p' err)
# shellcheck disable=SC2086 # words
env -i RANK=0 WORLD_SIZE=1 DNNL_MAX_CPU_ISA=SSE41 $line || fail "the worker by hand: $line"
wait $pid || fail "by hand: $(cat err)"
says $kernels "by hand"
