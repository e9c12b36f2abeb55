#!/bin/sh
# Folding with contention: right, and how it grows. Writes OUT/scale.tsv, OUT/whole.tsv, OUT/fold.txt and
# OUT/scale.svg. Needs a build (BUILD, default build/release) and gnuplot; 4 minutes, 1.1 GB.
#
#     bench/scale.sh OUT
set -eu
out=${1:?usage: bench/scale.sh OUT}
build=${BUILD:-build/release}
mkdir -p "$out"

# Growth from 1,024 to 131,072 GPUs: a port for each GPU, and one for eight.
: > "$out/scale.tsv"
for family in rail leaf-spine; do
    for engine in analytic simgrid; do
        "$build/bench/scale" $engine folded $family 1024 2048 4096 8192 16384 32768 65536 131072 |
            if [ -s "$out/scale.tsv" ]; then grep -v '^#'; else cat; fi >> "$out/scale.tsv"
    done
done
# Folded beside whole, as far as that goes; with oversubscribed spines too.
: > "$out/whole.tsv"
for family in rail leaf-spine leaf-spine:oversubscription=2; do
    for engine in analytic simgrid; do
        for how in folded whole; do
            "$build/bench/scale" $engine $how $family 1024 2048 |
                if [ -s "$out/whole.tsv" ]; then grep -v '^#'; else cat; fi >> "$out/whole.tsv"
        done
    done
done
# 500 random plans on ten platforms, folded against whole, on both engines.
"$build/tests/test_fold" 50 2>&1 | grep -v '^\[' > "$out/fold.txt"

command -v gnuplot > /dev/null || exit 0
gnuplot <<PLOT
set terminal svg size 640,420 font "sans,12" background "white"
set output "$out/scale.svg"
set logscale xy
set xlabel "GPUs"
set ylabel "CPU seconds"
set key left top
set grid
set format x "%.0f"
set xtics (1024, 4096, 16384, 65536, 131072)
folded(c) = sprintf("< grep -v '^#' $out/scale.tsv | awk '\$2 == \"rail\" && \$3 == \"%s\"'", c)
whole(c) = sprintf("< awk '\$2 == \"rail\" && \$3 == \"%s\" && \$4 == \"whole\"' $out/whole.tsv", c)
plot folded("simgrid") using 1:6 with linespoints lw 2 pt 7 title "folded on SimGrid, everything", \
     folded("simgrid") using 1:9 with linespoints lw 2 pt 6 title "of it the proof and the simulation", \
     whole("simgrid") using 1:6 with linespoints lw 2 pt 5 title "whole on SimGrid", \
     whole("analytic") using 1:6 with linespoints lw 2 pt 4 title "whole, analytic"
PLOT
