#!/bin/sh
# Run the sweep and draw figure.svg.
set -e
foreline sweep sweep.yml
foreline plot throughput experts.db --x plan.expert-parallel --by plan.schedule \
    --log x --xlabel 'expert parallelism' -o figure.svg
