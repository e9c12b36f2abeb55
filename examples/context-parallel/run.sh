#!/bin/sh
# Run the sweep and draw figure.svg.
set -e
foreline sweep sweep.yml
foreline plot throughput context-parallel.db --x plan.context-parallel --by plan.tensor-parallel --where engine=analytic \
    --xlabel 'GPUs that share a sequence' -o figure.svg
