#!/bin/sh
# Our headers of CUDA, cuBLAS, cuDNN and NCCL against the real ones: the double's functions have the prototypes of the real
# headers, and numbers the same values. Usage: headers.sh SOURCE_DIRECTORY [INCLUDE_DIRECTORY]
set -eu
source=$(cd "$1" && pwd)
real=${2:-/usr/local/cuda/include}
[ -e "$real/nccl.h" ] && [ -e "$real/cublas_v2.h" ] || {
    echo "skipped: no headers of CUDA and NCCL in $real"
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ours=$source/tests/double/include
for f in runtime graphs errors blas blas_lt engine nccl nccl_calls; do
    # nccl.h of the double includes our header by its path: another folder, without it
    sed "s|\"tests/double/include/nccl.h\"|<nccl.h>|" "$source/tests/double/nccl.h" >"$work/nccl_inside.h"
    sed "s|\"tests/double/nccl.h\"|\"$work/nccl_inside.h\"|" "$source/tests/double/$f.cpp" >"$work/$f.cpp"
    g++ -std=gnu++17 -fsyntax-only -w -I"$source" -isystem "$real" "$work/$f.cpp"
done
# What exec/device/cuda says of cuDNN without its headers.
if [ -e "$real/cudnn_graph.h" ]; then
    gcc -std=c11 -fsyntax-only -w -I"$source" -isystem "$real" "$source/tests/double/cudnn_numbers.c"
else
    echo "not compared: cuDNN, which has no header in $real"
fi
# Every enumerator, and every macro that is a number.
names=$(sed -n 's/^ *\(cuda[A-Z][A-Za-z0-9]*\|nccl[A-Z][A-Za-z0-9]*\|CUBLAS[A-Z]*_[A-Z0-9_]*\|CUDA_R_[A-Z0-9_]*\) = .*/\1/p' \
    "$ours"/cuda_runtime_api.h "$ours"/cublas_v2.h "$ours"/cublasLt.h "$ours"/nccl.h)
macros="cudaStreamNonBlocking cudaEventDisableTiming cudaEventBlockingSync cudaHostAllocDefault NCCL_UNIQUE_ID_BYTES
    NCCL_CONFIG_UNDEF_INT NCCL_SPLIT_NOCOLOR sizeof(ncclUniqueId)
    sizeof(cublasLtMatmulHeuristicResult_t) sizeof(cublasLtMatmulDescOpaque_t)"
{
    echo '#include <cuda_runtime_api.h>'
    echo '#include <cublas_v2.h>'
    echo '#include <cublasLt.h>'
    echo '#include <nccl.h>'
    echo '#include <stdio.h>'
    echo 'int main(void) {'
    for n in $names $macros cudaStreamPerThread; do
        printf 'printf("%%s %%ld\\n", "%s", (long)(%s));\n' "$n" "$n"
    done
    echo 'return 0; }'
} >"$work/numbers.c"
gcc -w -I"$ours" -o "$work/ours" "$work/numbers.c"
gcc -w -isystem "$real" -o "$work/real" "$work/numbers.c"
"$work/ours" >"$work/ours.txt"
"$work/real" >"$work/real.txt"
diff "$work/ours.txt" "$work/real.txt"
[ "$(wc -l <"$work/real.txt")" -gt 60 ]
