#!/bin/sh
# Run the sweep and draw figure.svg: two racks only.
set -e
foreline sweep sweep.yml
foreline plot regret partitioners-on-branching-models.db --x model --by plan.algorithm \
    --where 'network=two racks',engine=analytic --title 'two racks' -o figure.svg
