#!/bin/sh
# Run the sweep and draw figure.svg.
set -e
foreline sweep sweep.yml
foreline plot throughput ecmp-and-spray.db --x platform.oversubscription --by routing --log x --xlabel oversubscription \
    -o figure.svg
