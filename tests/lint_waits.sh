#!/bin/sh
# Fail when something is waited for as long as a source says, and not as limit_wait() says, which knows how patient the
# user is: constants in seconds or milliseconds, numbers in a deadline or a poll(), and calls of libraries that wait,
# but for those below, each with its reason.
# Usage: lint_waits.sh SOURCE_DIR
cd "$1" || exit 2
folders=$(awk '/^[a-z]/ { print $1 }' folders.txt)
reasons='
campaign/failures.c:1 the watchdog of NCCL
cli/cmd_plan.c:1 a look at standard output
cli/cmd_run.c:1 what --timeout is unless it is given
cli/progress.c:1 when a line of progress is drawn
core/base/clock.c:1 the one sleep
core/base/units.h:1 minutes, hours and days
core/data/faults.h:1 a fault that never comes
library/foreline.c:1 how often progress is told
explore/subprocess.c:1 a nap
explore/task.c:1 how often the page hears of a command
host/leftover.c:2 naps, until what is being made is listed, or the process ends
host/family.c:1 how often it looks, and who was away itself
core/base/limit.c:1 the largest limit
exec/calibrate/mpi.c:2 naps
exec/calibrate/ops.c:1 how long is measured
exec/calibrate/power.c:1 how long is measured
exec/condition.h:1 the one wait for a condition, until a deadline
exec/device/paced.c:1 what an op takes that is a mistake
exec/launch/environment.c:1 how often it looks
exec/launch/spawn.c:2 how often it looks
exec/launch/watch.c:4 how often it looks; naps
exec/netns/build.c:1 a burst of a shaper
exec/netns/carry.c:3 how long is measured; a nap; limit_wait(4)
exec/netns/check.c:1 a latency that is slow
exec/netns/line.c:2 the shortest delay; until the next packet
exec/netns/ranks.c:2 how often it looks; a look
exec/netns/sandbox.c:3 how often it looks; a nap
exec/rendezvous.c:1 the longest latency
exec/rendezvous.h:1 how often heartbeats are sent
exec/star.c:1 how far ahead a step begins
exec/team.c:1 how often it looks
exec/transport/tcp/link.c:2 how long a socket is left to the rank that read from it; a message that may never come
exec/transport/local/local.c:2 how far ahead a step begins; a nap
exec/transport/mpi/calibrate.c:1 a nap
exec/transport/mpi/mpi.c:2 how far ahead a step begins
exec/transport/mpi/progress.c:1 naps
exec/transport/mpi/smpi_worker.c:1 simulated time has no end
exec/transport/nccl/nccl.c:2 how far ahead a step begins; a nap
exec/transport/nccl/watch.c:3 how often it looks; naps
exec/transport/tcp/socket.c:3 naps between calls that are refused; as socket_give_up() is told
exec/transport/tcp/tcp.c:1 how far ahead a step begins
papers/pipedream/pipedream_text.c:1 the longest op
papers/cpsc526/exhaustive.c:1 what --time-limit is unless it is given
papers/cpsc526/refine.c:1 what --time-limit is unless it is given
papers/pipedream/dp.c:1 what --time-limit is unless it is given
papers/placement/ideals.c:1 what --time-limit is unless it is given
papers/placement/noncontiguous.c:2 what --time-limit is unless it is given
papers/placement/read.c:1 the longest op
sim/child.c:1 how often it looks
sim/ns3.c:1 how often it looks
sim/simgrid.c:1 how often it looks
sim/simgrid/simulate.c:1 the resolution of SimGrid
sim/workload.c:1 the latency of a port of a machine
study/emulate_pattern.c:1 a nap, and how far ahead it starts; as long as limit_wait() leaves
study/point.c:1 no --time-limit
study/pool.h:1 a moment for what is nearly done when the user stops it
study/pool.c:3 how often it looks; a nap
lab/scoreboard/published_profile.c:1 the longest op
study/run_failures.c:1 periods of a slow rank; a look
topologies/family_torus.c:1 a latency of hardware
topologies/generate.c:1 latencies of hardware
topologies/machine/platform.c:1 a latency of hardware'
found=$(mktemp) && patient=$(mktemp) || exit 2
trap 'rm -f "$found" "$patient"' EXIT
# shellcheck disable=SC2086 # words
grep -rhoE --include='*.c' 'limit_wait\([a-z]+_s\)' $folders | sed 's/.*(\(.*\))/ \1 = /' | sort -u >"$patient"
# shellcheck disable=SC2086 # words
grep -rnE --include='*.c' --include='*.h' \
    -e 'const double .*[a-z]_(s|ms) = [.0-9]|\<[A-Z_]*_(S|MS) = [0-9]|\<(timeout|deadline)_s = ([^;]* [-+] )?[0-9.]*[1-9]' \
    -e 'clock_now\(\) [-+<>]+ [0-9.]|[0-9] \+ clock_now\(\)|poll\(.*, -?[0-9A-Z_]+\)|team_run\([^;]*, [0-9]+,' \
    -e '\<((|u|nano|clock_nano)sleep|alarm|setitimer|timer(|fd)_settime|ppoll|p?select|epoll_p?wait)\(' \
    -e '\<(pthread_cond_(timed|clock)wait|pthread_mutex_timedlock|sem_(timed|clock)wait|sigtimedwait)\(' \
    -e 'SO_(RCV|SND)TIMEO|TCP_USER_TIMEOUT' \
    $folders | grep -vFf "$patient" | grep -v -e '^exec/device/cpu/' -e '^exec/device/cuda/' -e '^exec/device/sharded/' >"$found"
awk -F: -v reasons="$reasons" '
BEGIN { n = split(reasons, line, "\n"); for (i = 1; i <= n; i++) { split(line[i], at, /[: ]/); may[at[1]] = at[2] } }
++seen[$1] > may[$1] { print $1 ":" $2 ": a wait that is not limit_wait():" $3; bad = 1 }
END {
    for (f in may) if (f != "" && seen[f] + 0 < may[f]) { print f ": its exception in lint_waits.sh is not needed"; bad = 1 }
    exit bad
}' "$found"
