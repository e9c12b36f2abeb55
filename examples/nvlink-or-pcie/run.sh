#!/bin/sh
# Run the sweep and draw figure.svg.
set -e
foreline sweep sweep.yml
foreline plot throughput nvlink-or-pcie.db --x link --by layout --where model=gpt2-xl:dtype=bf16,engine=analytic \
    --xlabel 'gpt2-xl: samples per second' -o figure.svg
