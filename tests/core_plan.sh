#!/bin/sh
# foreline-core alone: the example predicts what can be computed by hand, and the library needs no others than
# libm, jansson, nettle and the C library. Usage: core_plan.sh CORE_PLAN MODEL.json LIBRARY
set -eu
expect() {
    found=$("$1" "$2" "$3")
    [ "$found" = "$4" ] || { echo "found '$found', expected '$4'" && exit 1; }
}
# 4 ops of 10 and 20 ms, each with 5 us to launch: 8 microbatches of 4 x 30.01 ms on one device.
expect "$1" "$2" 1 "1 stages: 0.96032 s per iteration"
! "$1" "$2" 5 2>/dev/null || { echo "5 stages of 4 ops" && exit 1; }
needed=$(ldd "$3" | sed -E 's#^[[:space:]]*([^ ]+).*#\1#; s#.*/##; s#\.so.*##' | grep -v '^ld-\|^linux-' | sort | tr '\n' ' ')
[ "$needed" = "libc libjansson libm libnettle " ] ||
    { echo "foreline-core needs other libraries: $needed" && exit 1; }
