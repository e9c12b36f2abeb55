#!/bin/sh
# Capture train_gpt.py as one of 64 ranks, predict it on 8 nodes of 8 H100 with ports of 5 to 400 Gb/s, and draw figure.svg.
# PYTHON is one that has PyTorch; it needs no GPU.
set -e
printf 'gbps\tsequences\tsteps_per_s\n' >steps.tsv
for batch in 1 4; do
    foreline capture -o "gpt-$batch" --world-size 64 --ranks 0 -- "${PYTHON:-python3}" train_gpt.py \
        --width 2048 --heads 16 --layers 12 --vocab 50304 --tokens 1024 --batch $batch
    for gbps in 5 10 25 50 100 200 400; do
        foreline simulate "gpt-$batch" --platform rail:nodes=8,type=H100,nic=${gbps}Gbps --engine analytic --json >step.json 2>note.txt
        sed -n "s/.*\"samples_per_s\": \([0-9.]\{1,6\}\).*/$gbps\t$batch a GPU\t\1/p" step.json >>steps.tsv
    done
done
cat steps.tsv
foreline plot throughput steps.tsv --x gbps --y steps_per_s --by sequences --xlabel 'port of a GPU (Gb/s)' \
    --ylabel 'steps per second' -o figure.svg
