#!/bin/sh
# What nvcc makes of the kernels for an H100 (sm_90): no warnings, no spills and no stack; in the kernels of attention on
# tensor cores the accesses of 16 bytes, matrix loads and products that they are written for; and accesses of 16 bytes in those
# that memory bounds. No GPU is needed. Usage: ptx.sh
# SOURCE_DIRECTORY NVCC; 77: there is no nvcc.
set -eu
source=$(cd "$1" && pwd)
nvcc=$2
[ -x "$nvcc" ] || {
    echo "skipped: no nvcc ($nvcc)"
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAIL: $*" >&2
    exit 1
}
cd "$source"
for file in exec/device/cuda/kernels*.cu; do
    "$nvcc" -std=c++17 -arch=sm_90 -Xptxas -v -Xcompiler=-Wall,-Wextra --Werror=all-warnings -I. --keep --keep-dir "$work" \
        -c -o "$work/out.o" "$file" >"$work/says" 2>&1 || fail "$file: $(grep -m 1 -i error "$work/says")"
    cat "$work/says" >>"$work/all"
done
# name, stack, spill stores, spill loads, registers
awk '/Compiling entry function/ { split($0, part, "\047"); name = part[2] }
    /bytes stack frame/ { stack = $1; stores = $5; loads = $9 }
    /Used [0-9]+ registers/ { for (i = 1; i < NF; i++) if ($i == "Used") print name, stack, stores, loads, $(i + 1) }' \
    "$work/all" | sort >"$work/kernels"
awk '$2 + $3 + $4 > 0' "$work/kernels" | grep . && fail "these kernels have a stack or spill registers"
[ "$(wc -l <"$work/kernels")" -gt 60 ] || fail "only $(wc -l <"$work/kernels") kernels"
awk '{ printf "%4d registers  %s\n", $5, $1 }' "$work/kernels" | sort -n | tail -n 12
for what in cp.async.cg.shared.global ldmatrix.sync mma.sync.*bf16 mma.sync.*f32.f16.f16 st.global.v4; do
    n=$(grep -c "$what" "$work/kernels_flash.ptx") || fail "no $what in kernels_flash.cu"
    echo "$n $what"
done
# 16 bits at a time is no way to read: neither tiles, nor rows of y and dy
! grep -E "(ld|st)\.global\.(b|u)16" "$work/kernels_flash.ptx" | head -n 3 | grep . || fail "accesses of 2 bytes"
# kernel, fewest loads and stores of 16 bytes: each of what it reads and writes, by number of arguments
while read -r kernel loads stores; do
    echo "$kernel" "$loads" "$stores"
    case $kernel in *13__nv_bfloat16) echo "${kernel%13__nv_bfloat16}6__half" "$loads" "$stores" ;; esac
done >"$work/wanted" <<'END'
normI13__nv_bfloat16 5 2
norm_backwardI13__nv_bfloat16 5 1
column_sumsI13__nv_bfloat16 1 0
sumI13__nv_bfloat16 2 1
narrowI13__nv_bfloat16 2 1
widenI13__nv_bfloat16 1 2
bias_addI13__nv_bfloat16 1 1
geluI13__nv_bfloat16 1 1
gelu_backwardI13__nv_bfloat16 2 1
embeddingI13__nv_bfloat16 2 1
embedding_valuesI13__nv_bfloat16 2 1
embedding_positionsI13__nv_bfloat16 2 2
loss_rowI13__nv_bfloat16 2 1
loss_lookI13__nv_bfloat16 1 0
loss_backwardI13__nv_bfloat16 1 1
gatedI13__nv_bfloat16 2 1
gated_backwardI13__nv_bfloat16 3 2
sgd13kernel_update 4 5
adam13kernel_update 8 9
END
while read -r kernel loads stores; do
    cat "$work"/kernels*.ptx | awk -v name="$kernel" '
        /\.entry/ { here = $0 ~ "Z[0-9]+" name }
        here && /ld\.global[a-z.]*\.v4/ { l++ }
        here && /st\.global[a-z.]*\.v4/ { s++ }
        here && /^}/ { print l + 0, s + 0; exit }' >"$work/wide"
    read -r l s <"$work/wide" || fail "no kernel $kernel"
    [ "$l" -ge "$loads" ] && [ "$s" -ge "$stores" ] || fail "$kernel has $l loads and $s stores of 16 bytes"
    echo "$kernel: $l loads and $s stores of 16 bytes"
done <"$work/wanted"
