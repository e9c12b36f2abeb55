#!/bin/sh
# Run the sweep and draw figure.svg.
set -e
foreline sweep sweep.yml
foreline plot throughput fsdp-or-pipeline.db --x platform.nic --by layout --where engine=analytic --xlabel 'port of a GPU (Gb/s)' \
    -o figure.svg
