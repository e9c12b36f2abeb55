#!/bin/sh
# Folding with contention: right, and how it grows. Writes OUT/scale.tsv, OUT/whole.tsv, OUT/fold.txt and
# OUT/scale.svg. Needs a build (BUILD, default build/release) and gnuplot; 10 minutes, 1.1 GB.
#
#     bench/scale.sh OUT
set -eu
out=${1:?usage: bench/scale.sh OUT}
build=${BUILD:-build/release}
mkdir -p "$out"

# Growth from 1,024 to 131,072 GPUs: a port for each GPU, one for eight, and spines of half the width;
# without ZeRO gradients are summed as NCCL would, in trees from 32,768 GPUs on.
: > "$out/scale.tsv"
for family in rail leaf-spine leaf-spine:oversubscription=2; do
    for zero in 0 1; do
        for engine in analytic simgrid; do
            "$build/bench/scale" $engine folded $family $zero auto \
                1024 2048 4096 8192 16384 32768 65536 131072 |
                if [ -s "$out/scale.tsv" ]; then grep -v '^#'; else cat; fi >> "$out/scale.tsv"
        done
    done
done
# Folded beside whole, as far as that goes; with rings and with trees.
: > "$out/whole.tsv"
for family in rail leaf-spine leaf-spine:oversubscription=2; do
    for engine in analytic simgrid; do
        for how in folded whole; do
            { "$build/bench/scale" $engine $how $family 1 auto 1024 2048
              "$build/bench/scale" $engine $how $family 0 tree 1024 2048 | grep -v '^#'; } |
                if [ -s "$out/whole.tsv" ]; then grep -v '^#'; else cat; fi >> "$out/whole.tsv"
        done
    done
done
# 1,500 random plans on ten platforms, folded against whole, on both engines.
"$build/tests/test_fold" 150 2>&1 | grep -v '^\[' > "$out/fold.txt"

command -v gnuplot > /dev/null || exit 0
gnuplot <<PLOT
set terminal svg size 480,400 font "sans,12" background "white"
set output "$out/scale.svg"
set logscale xy
set xlabel "GPUs"
set ylabel "CPU seconds"
set key above left Left reverse maxcols 1
set xrange [900:150000]
set grid
set format x "%.0f"
set xtics (1024, 4096, 16384, 65536, 131072)
folded(z) = sprintf("< awk '\$2 == \"rail\" && \$3 == \"%d\" && \$5 == \"simgrid\"' $out/scale.tsv", z)
whole(c) = sprintf("< awk '\$2 == \"rail\" && \$3 == 1 && \$5 == \"%s\" && \$6 == \"whole\"' $out/whole.tsv", c)
plot folded(1) using 1:8 with linespoints lw 2 pt 7 title "folded on SimGrid, ZeRO 1, everything", \
     folded(1) using 1:10 with linespoints lw 2 pt 6 title "of it the proof and the simulation", \
     folded(0) using 1:10 with linespoints lw 2 pt 9 title "the same without ZeRO", \
     whole("simgrid") using 1:8 with linespoints lw 2 pt 5 title "whole on SimGrid", \
     whole("analytic") using 1:8 with linespoints lw 2 pt 4 title "whole, analytic"
PLOT
