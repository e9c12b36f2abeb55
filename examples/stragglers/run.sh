#!/bin/sh
# Run the sweep and draw figure.svg.
set -e
foreline sweep sweep.yml
foreline plot throughput stragglers.db --x straggler --by plan.stages --title 'time of one GPU of 16' --xlabel 'samples per second' -o figure.svg
