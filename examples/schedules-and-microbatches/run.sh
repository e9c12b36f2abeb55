#!/bin/sh
# Run the sweep and draw figure.svg.
set -e
foreline sweep sweep.yml
foreline plot throughput schedules-and-microbatches.db --x case --by plan.schedule --where engine=analytic \
    --title 'microbatches x samples of each' --xlabel 'samples per second' -o figure.svg
