#!/bin/sh
# Run the sweep and draw figure.svg: of each cluster and number of stages the best plan.
set -e
foreline sweep sweep.yml
foreline plot throughput which-cluster.db --x cluster --by plan.stages --where engine=analytic \
    --xlabel 'samples per second' -o figure.svg
