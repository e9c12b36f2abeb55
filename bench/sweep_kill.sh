#!/bin/sh
# A sweep of 2,000 points killed with -9 ten times at random moments: is
# every point there once, equal to an uninterrupted run? Usage: bench/sweep_kill.sh FORELINE
exec "$(dirname "$0")/../tests/sweep.sh" "${1:?usage: sweep_kill.sh FORELINE}" killed 2000 10 gpt2-small
