#!/bin/sh
# Run the sweep and draw figure.svg.
set -e
foreline sweep sweep.yml
foreline plot throughput which-network-for-its-money.db --x network --by work --xlabel 'samples per second' -o figure.svg
