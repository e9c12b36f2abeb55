#!/bin/sh
# Programs on emulated networks: a link and a shared uplink carry what the platform says, nothing of
# it is left on the machine whatever ends it. Rates have an upper bound that a loaded machine cannot
# break, and a generous lower one. Usage: netns.sh FORELINE FLOW
set -eu
tool=$1 flow=$2
"$tool" emulate --check >/dev/null 2>&1 || {
    echo "skipped: no emulated networks here:"
    "$tool" emulate --check 2>&1 || true
    exit 77
}
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir"
fail() {
    echo "FAIL: $*" >&2
    exit 1
}

# platform HOSTS ROUTERS LINKS: words, a link is FROM-TO-BANDWIDTH
platform() {
    echo "<?xml version='1.0'?><!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">"
    echo '<platform version="4.1"><zone id="z" routing="Dijkstra">'
    for h in $1; do echo "<host id=\"$h\" speed=\"1Gf\"/>"; done
    for r in $2; do echo "<router id=\"$r\"/>"; done
    for l in $3; do
        echo "<link id=\"${l%-*}\" bandwidth=\"${l##*-}\" latency=\"10us\"" \
            'sharing_policy="SPLITDUPLEX"/>'
    done
    for l in $3; do
        from=${l%%-*} to=${l#*-}
        echo "<route src=\"$from\" dst=\"${to%-*}\"><link_ctn id=\"${l%-*}\" direction=\"UP\"/></route>"
    done
    echo '</zone></platform>'
}
platform 'left right' s 'left-s-100Mbps right-s-100Mbps' >pair.xml
platform 'a0 a1 b0 b1' 'sa sb' \
    'a0-sa-400Mbps a1-sa-400Mbps b0-sb-400Mbps b1-sb-400Mbps sa-sb-200Mbps' >uplink.xml

# carries WHAT BYTES_PER_SECOND FILE: all flows from the first byte to the last
carries() {
    awk -v what="$1" -v want="$2" '
        $2 == "flow" { b += $4; if (!n || $5 < begin) begin = $5; if (!n++ || $6 > end) end = $6 }
        END { if (!n) exit 1
              r = b / (end - begin) / want
              printf "%s: %.4f of its bandwidth, %d flows\n", what, r, n
              exit !(r > 0.3 && r < 1.02) }' "$3" || fail "$1: $(cat "$3")"
}
outside() { # what belongs to the machine
    ip -o link | sed 's/ state [A-Z]*//' && ip -o addr | sed 's/valid_lft.*//' && ip route
    ip rule && tc qdisc show && cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/tcp_congestion_control
    cat /etc/hosts && mount && hostname
}
outside >before

"$tool" emulate --platform pair.xml -- "$flow" 12 >pair.out 2>err || fail "pair: $(cat err)"
carries "a link of 100 Mbit/s" 12500000 pair.out
"$tool" emulate --platform pair.xml --dilate 4 -- "$flow" 4 >slow.out 2>err || fail "dilated: $(cat err)"
carries "the same at --dilate 4" 3125000 slow.out
printf '0 1 4000000\n0 1 1000000\n' >flows.txt
"$tool" bench network --platform pair.xml --flows flows.txt --engines analytic,netns >flows.out 2>err ||
    fail "flows: $(cat err)"
awk -F'\t' 'END { print "flows: " $6 " times as long as fluid"; exit !($3 == 2 && $6 > 0.98 && $6 < 3) }' flows.out ||
    fail "flows: $(cat flows.out)"
# Four times slower, what a busy machine carries too.
"$tool" emulate --platform uplink.xml --dilate 4 -- "$flow" 10 >up.out 2>err || fail "uplink: $(cat err)"
[ "$(grep -c flow up.out)" = 2 ] || fail "uplink: $(cat up.out)"
carries "an uplink of 200 Mbit/s" 6250000 up.out

# A FATPIPE has its bandwidth for each of two flows.
sed '/link id="sa-sb"/s/SPLITDUPLEX/FATPIPE/;/link id="sa-sb"/s/200Mbps/100Mbps/;/link_ctn id="sa-sb"/s/ direction="UP"//' \
    uplink.xml >fat.xml
"$tool" emulate --platform fat.xml --dilate 4 -- "$flow" 2 >fat.out 2>err || fail "fat: $(cat err)"
carries "a fat uplink, twice 100 Mbit/s" 6250000 fat.out
awk '$2 == "flow" && $4 / ($6 - $5) > 1.05 * 3125000 { bad = 1 } END { exit bad }' fat.out ||
    fail "fat: $(cat fat.out)"

# Of a bundle a connection has one cable where flows are hashed, else all of them.
bundle=leaf-spine:nodes=2,gpus=1,rack=1,spines=2,nic=100Mbps,oversubscription=2
"$tool" emulate --platform $bundle,paths=ecmp -- "$flow" 12 >lane.out 2>err || fail "lane: $(cat err)"
carries "a cable of a bundle" 3125000 lane.out
"$tool" emulate --platform $bundle -- "$flow" 12 >lanes.out 2>err || fail "bundle: $(cat err)"
grep -q 'parallel cables' err || fail "no warning: $(cat err)"
carries "a bundle" 6250000 lanes.out

# Both directions of a SHARED link are one: two opposite flows have its bandwidth together.
sed 's/ sharing_policy="SPLITDUPLEX"//;s/ *sharing_policy="SPLITDUPLEX"//;s/ direction="UP"//' pair.xml >opposite.xml
grep -q SPLITDUPLEX opposite.xml && fail "opposite: $(cat opposite.xml)"
"$tool" emulate --platform opposite.xml --dilate 2 -- "$flow" 4 both >opposite.out 2>err || fail "opposite: $(cat err)"
[ "$(grep -c flow opposite.out)" = 2 ] || fail "opposite: $(cat opposite.out)"
carries "a link of 100 Mbit/s that both directions share" 6250000 opposite.out

# SimGrid's own kinds of platforms: a <cluster> with a backbone that all share, and two zones.
{
    echo '<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd"><platform version="4.1">'
    echo '<cluster id="c" prefix="c" suffix="" radical="0-3" speed="20Gf" bw="200Mbps" lat="10us" bb_bw="100Mbps" bb_lat="10us"/>'
    echo '</platform>'
} >cluster.xml
"$tool" emulate --platform cluster.xml --dilate 4 -- "$flow" 4 >cluster.out 2>err || fail "cluster: $(cat err)"
[ "$(grep -c flow cluster.out)" = 2 ] || fail "cluster: $(cat cluster.out)"
carries "a backbone of 100 Mbit/s" 3125000 cluster.out
{
    echo '<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd"><platform version="4.1">'
    echo '<zone id="top" routing="Full">'
    for z in a b; do
        echo "<zone id=\"$z\" routing=\"Full\"><host id=\"${z}0\" speed=\"20Gf\"/><host id=\"${z}1\" speed=\"20Gf\"/>"
        echo "<link id=\"$z\" bandwidth=\"100Mbps\" latency=\"10us\"/><route src=\"${z}0\" dst=\"${z}1\"><link_ctn id=\"$z\"/></route></zone>"
    done
    echo '<link id="between" bandwidth="50Mbps" latency="10us"/>'
    echo '<zoneRoute src="a" dst="b" gw_src="a1" gw_dst="b0"><link_ctn id="between"/></zoneRoute></zone></platform>'
} >zones.xml
"$tool" emulate --platform zones.xml --dilate 2 -- "$flow" 4 >zones.out 2>err || fail "zones: $(cat err)"
carries "a link of 50 Mbit/s between zones" 3125000 zones.out

# How exact each rate is; "no" on a busy machine, but there.
"$tool" emulate --check --platform uplink.xml --dilate 8 >out 2>err || fail "check: $(cat err)"
[ "$(grep -c '^link rate .*% of .*dilated 8 times; [14] link' out)" = 2 ] || fail "check: $(cat out)"

# Two at once, with the same addresses, do not meet.
"$tool" emulate --platform pair.xml -- "$flow" 40 >one.out 2>one.err &
pid=$!
"$tool" emulate --platform pair.xml -- "$flow" 40 >two.out 2>two.err || fail "second: $(cat two.err)"
wait $pid || fail "first: $(cat one.err)"
carries "one of two networks at once" 12500000 one.out
carries "the other" 12500000 two.out

# Latencies of two links of 20 ms, there and back; the delay line's packets are hardly early.
sed 's/10us/20ms/' pair.xml >far.xml
"$tool" emulate --platform far.xml -- "$flow" echo >echo.out 2>err || fail "latency: $(cat err)"
if grep -q 'latencies by' err; then
    awk '$2 == "echo" { n++; printf "a latency of 20 ms: %.4f of it\n", $4 / 0.08; ok = $4 > 0.0792 && $4 < 0.8 }
         END { exit !(n == 1 && ok) }' echo.out || fail "latency: $(cat echo.out)"
    "$tool" emulate --platform far.xml -- "$flow" 8 >far.out 2>err || fail "far: $(cat err)"
    carries "a link of 100 Mbit/s and 20 ms" 12500000 far.out
else
    echo "not tested: latencies, $(cat err)"
fi

# Nobody needs to be root.
anyone() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
users=:
chmod 755 .
if [ "$(id -u)" = 0 ] && anyone test -x "$flow" && anyone "$tool" emulate --check >/dev/null 2>&1; then
    users=': anyone'
    for platform in pair far; do
        anyone "$tool" emulate --platform $platform.xml -- "$flow" 12 >any.out 2>err || fail "user: $(cat err)"
        carries "an ordinary user's network ($platform)" 12500000 any.out
    done
else
    echo "not tested: an ordinary user beside root"
fi

# A plan's workers: hardly faster than SimGrid says (docs/reference/emulation.md), and in the same order of
# magnitude however loaded the machine is.
platform 'a0 a1 b0 b1' 'sa sb' 'a0-sa-100Mbps a1-sa-100Mbps b0-sb-100Mbps b1-sb-100Mbps sa-sb-50Mbps' |
    sed 's/1Gf/20Gf/' >slow.xml
"$tool" plan --algorithm balanced --model gpt-tiny --platform slow.xml --stages 4 --schedule 1f1b \
    --microbatches 8 --microbatch-size 4 -o plan.json >out 2>&1 || fail "plan: $(cat out)"
"$tool" simulate plan.json --engine simgrid --json >simulated.json
"$tool" emulate plan.json --engine netns --steps 2 -o measured.json >out 2>err || fail "plan: $(cat err)"
median() { sed -n 's/.*"iteration_s": *\([0-9.e+-]*\).*/\1/p' "$1" | head -n 1; }
echo "a plan: simulated $(median simulated.json) s, measured $(median measured.json) s"
awk -v s="$(median simulated.json)" -v m="$(median measured.json)" \
    'BEGIN { exit !(s > 0 && m > 0.96 * s && m < 5 * s) }' || fail "simulated and measured differ"

# The same where activations and gradients share the links: SimGrid's prediction holds there, too.
for platform in cluster zones; do
    "$tool" plan --algorithm balanced --model gpt-tiny --platform $platform.xml --stages 4 --schedule 1f1b \
        --microbatches 8 --microbatch-size 4 -o shared.json >out 2>&1 || fail "plan: $(cat out)"
    "$tool" simulate shared.json --engine simgrid --json >shared-simulated.json
    "$tool" emulate shared.json --engine netns --steps 2 -o shared-measured.json >out 2>err || fail "plan: $(cat err)"
    echo "a plan on $platform: simulated $(median shared-simulated.json) s, measured $(median shared-measured.json) s"
    awk -v s="$(median shared-simulated.json)" -v m="$(median shared-measured.json)" \
        'BEGIN { exit !(s > 0 && m > 0.96 * s && m < 5 * s) }' || fail "simulated and measured differ"
done

# Three times slower, in the same seconds, and with the latencies: never less than without network.
"$tool" emulate plan.json --engine netns --steps 2 --dilate 3 -o dilated.json >out 2>err || fail "dilated plan: $(cat err)"
grep -q 'stretched 3 times.*transport\|by netem' err || fail "dilated plan: $(cat err)"
awk -v s="$(median simulated.json)" -v m="$(median dilated.json)" \
    'BEGIN { exit !(m > 0.96 * s && m < 5 * s) }' || fail "simulated and dilated differ"
"$tool" emulate plan.json --engine netns --steps 1 --warmup 0 --compute real -o real.json >out 2>err ||
    fail "real compute: $(cat err)"
grep -q parameters_sha256 real.json || fail "real compute without parameters"
grep -q '"mfu"\|^MFU' real.json out && fail "MFU of devices that did not compute"
grep -q '"mfu"' dilated.json || fail "no MFU where compute takes its predicted time"
# Dilated, inside its predicted time: the same parameters, or refused on a machine too slow for it.
status=0
"$tool" emulate plan.json --engine netns --steps 1 --warmup 0 --compute real --dilate 2 -o real2.json >out 2>err || status=$?
if [ $status = 0 ]; then
    [ "$(grep parameters_sha256 real2.json)" != "" ] || fail "dilated real compute without parameters"
    "$tool" emulate plan.json --engine netns --steps 2 --warmup 0 --compute real -o real.json >out 2>err ||
        fail "real compute: $(cat err)"
    [ "$(grep parameters_sha256 real.json)" = "$(grep parameters_sha256 real2.json)" ] ||
        fail "dilation changes parameters"
else
    grep -q 'stretched.*2.*little' err || fail "dilated real compute: $(cat err)"
fi
status=0
"$tool" emulate plan.json --engine netns --steps 1 --compute real --dilate 0.1 >out 2>err || status=$?
[ $status = 1 ] && grep -q 'which is too little.*ops took\|carries only' err || fail "hurried compute: $(cat err)"

# Two jobs on one uplink, and traffic beside one: hardly faster than predicted.
"$tool" plan --algorithm balanced --model gpt-tiny --platform slow.xml --stages 1 --replicas 2 \
    --microbatches 4 --microbatch-size 4 -o job.json >out 2>&1 || fail "plan: $(cat out)"
printf 'from,to,rate\na1,b1,20Mbps\n' >traffic.csv
value() { sed -n "s/.*\"$1\": *\([0-9.e+-]*\).*/\1/p" jobs.json | head -n 1; }
for jobs in "job.json job.json --start job.2=100ms" "job.json --background traffic.csv"; do
    # shellcheck disable=SC2086
    "$tool" emulate --engine netns $jobs --place spread --repeats 1 --iterations 3 -o jobs.json >out 2>err ||
        fail "jobs $jobs: $(cat err)"
    echo "$jobs: slowdown simulated $(value slowdown), measured $(value emulated_slowdown)"
    awk -v s="$(value slowdown)" -v m="$(value emulated_slowdown)" \
        'BEGIN { exit !(s > 1.2 && m > 0.8 * s && m < 5 * s) }' || fail "simulated and measured slowdowns differ"
done

# Faults mean the same simulated and emulated.
"$tool" simulate plan.json --slow link:sa-sb=2@0.3 --json >simulated.json
"$tool" emulate plan.json --engine netns --slow link:sa-sb=2@0.3 -o slow.json >out 2>err || fail "slow: $(cat err)"
echo "a slow link: simulated $(median simulated.json) s, measured $(median slow.json) s"
awk -v s="$(median simulated.json)" -v m="$(median slow.json)" \
    'BEGIN { exit !(s > 1.05 && m > 0.96 * s && m < 5 * s) }' || fail "simulated and emulated slow links differ"
for how in "simulate plan.json" "emulate plan.json --engine netns"; do
    status=0
    # shellcheck disable=SC2086
    "$tool" $how --kill 2@0.2 >out 2>err || status=$?
    [ $status = 1 ] && grep -q 'rank 2 (b0) was killed at 200 ms' err || fail "$how --kill: $(cat err)"
    status=0
    # shellcheck disable=SC2086
    "$tool" $how --fail sa-sb@0.2 >out 2>err || status=$?
    [ $status = 1 ] && grep -q 'link sa-sb failed at 200 ms' err || fail "$how --fail: $(cat err)"
done
# What is not there is refused as a wrong value, before anything is built.
for fault in "--fail nowhere@1" "--slow link:nowhere=2@1" "--kill 99@1" "--kill nobody@1"; do
    status=0
    # shellcheck disable=SC2086
    "$tool" emulate plan.json --engine netns $fault >out 2>err || status=$?
    [ $status = 2 ] && [ "$(wc -l <err)" = 1 ] && grep -q "no link 'nowhere'\|--kill" err ||
        fail "$fault: $(cat err)"
done

# Over MPI, where the worker for it was built.
if [ -x "$(dirname "$tool")/foreline-worker-mpi" ] && command -v mpirun >/dev/null; then
    "$tool" emulate plan.json --engine netns --transport mpi --steps 1 -o mpi.json >out 2>err ||
        fail "mpi: $(cat err)"
    echo "over MPI: measured $(median mpi.json) s"
fi

# A shell in one node, and its exit status.
status=0
echo 'hostname; ls /sys/class/net; exit 3' | SHELL=/bin/sh "$tool" emulate --platform pair.xml --shell right \
    >out 2>err || status=$?
[ $status = 3 ] && [ "$(tr '\n' ' ' <out)" = "right eth0 lo " ] || fail "shell: $(cat out err)"

# A shell in a network that runs, by name or by its process.
"$tool" emulate --platform far.xml -- sleep 600 >out 2>err &
pid=$!
until "$tool" emulate --shell right --pid $pid </dev/null >out 2>&1; do
    kill -0 $pid 2>/dev/null || fail "join: ended too early: $(cat err)"
    sleep 0.1
done
status=0
echo 'hostname; ls /sys/class/net; echo $WORLD_SIZE; exit 3' |
    SHELL=/bin/sh "$tool" emulate --shell right --pid $pid >out 2>err || status=$?
[ $status = 3 ] && [ "$(tr '\n' ' ' <out)" = "right eth0 lo 2 " ] || fail "join: $(cat out err)"
status=0
"$tool" emulate --shell nowhere --pid $pid >out 2>err || status=$?
[ $status = 1 ] && grep -q 'unknown host' err || fail "join nowhere: $(cat err)"
kill $pid && wait $pid || true
status=0
"$tool" emulate --shell right --pid $pid >out 2>err || status=$?
[ $status = 1 ] && grep -q "process.*$pid.*emulation" err || fail "join nobody: $(cat err)"

# What a rank sees.
"$tool" emulate --platform pair.xml -- sh -c 'echo $RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR \
    $MASTER_PORT $(hostname) $(ls /sys/class/net) $(wc -l <$FORELINE_HOSTS); readlink /proc/self/ns/net >&2' \
    >see.out 2>see.err
[ "$(sort see.out)" = "[0] 0 0 2 10.99.0.1 29500 left eth0 lo 2
[1] 1 0 2 10.99.0.1 29500 right eth0 lo 2" ] || fail "environment: $(cat see.out)"
[ "$(grep -c 'net:' see.err)" = 2 ] || fail "namespaces: $(cat see.err)"

# Exit status of the first that fails; the others are ended, also if they would rather not.
status=0
"$tool" emulate --platform pair.xml -- sh -c 'trap "" TERM; [ $RANK = 1 ] && sleep 0.2 && exit 7
    sleep 600; sleep 600' >out 2>err || status=$?
[ $status = 7 ] || fail "exit status $status instead of 7: $(cat err)"
status=0
"$tool" emulate --platform pair.xml -- /nowhere >out 2>err || status=$?
[ $status = 127 ] || fail "exit status $status instead of 127: $(cat err)"

# Whatever ends it, its processes are gone, which are told by their environment and names, and with
# the last of them its namespaces.
marked() { # marked [NAME]
    n=0
    for p in $(grep -lsF "NETNS_TEST=$dir" /proc/[0-9]*/environ 2>/dev/null || true); do
        [ $# = 0 ] || grep -qsx "$1" "${p%/environ}/comm" || continue
        n=$((n + 1))
    done
    echo $n
}
in_spaces() { # processes in the namespaces that ranks have printed
    for p in /proc/[0-9]*; do readlink "$p/ns/net" 2>/dev/null || true; done | grep -cFf names || true
}
gone() { # gone HOW
    for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        left=$(($(marked) + $(in_spaces)))
        [ $left = 0 ] && return
        sleep 0.2
    done
    fail "$1: $left processes are left"
}
# begin USER ARGUMENTS...: emulate in a group of its own, where Ctrl-C is not ignored as it is for a
# shell's background; USER is : or anyone
begin() {
    case $1 in anyone) as='setpriv --reuid=65534 --regid=65534 --clear-groups' ;; *) as= ;; esac
    shift
    : >names.out
    # shellcheck disable=SC2086
    env --default-signal=INT NETNS_TEST="$dir" setsid $as "$tool" emulate "$@" >names.out 2>err &
    pid=$!
}
until_there() { # until_there WHAT COUNT [NAME]
    until [ "$(marked ${3:+"$3"})" -ge "$2" ]; do
        kill -0 $pid 2>/dev/null || fail "$1: ended too early: $(cat err)"
        sleep 0.1
    done
}
end_with() { # end_with SIGNAL
    if [ "$1" = INT ]; then kill -s INT -- "-$pid"; else kill -"$1" $pid; fi
    status=0
    wait $pid || status=$?
}
delay_lines=0
"$tool" emulate --platform far.xml -- true 2>&1 | grep -q 'by a delay line' && delay_lines=1
for user in $users; do
    for signal in KILL TERM INT; do
        what="$signal as $user"
        begin $user --platform far.xml -- sh -c 'readlink /proc/self/ns/net; sleep 600 & sleep 600'
        until [ "$(grep -c 'net:' names.out)" = 2 ]; do
            kill -0 $pid 2>/dev/null || fail "$what: ended too early: $(cat err)"
            sleep 0.1
        done
        until_there "$what" $delay_lines foreline-delay
        sed 's/^\[.\] //' names.out >names
        end_with $signal
        [ $status -gt 128 ] || fail "$what: exit status $status"
        gone "$what"
    done
    # The same of a plan's workers: the command, the sandbox's two, four of them.
    for signal in KILL INT; do
        begin $user plan.json --engine netns --steps 500
        until_there "$signal of a plan as $user" 7
        end_with $signal
        [ $status -ne 0 ] || fail "$signal of a plan: exit status $status"
        gone "$signal of a plan as $user"
    done
done

# Its first process is asked to end by somebody: that is said, and the ranks end.
begin : --platform pair.xml -- sh -c 'readlink /proc/self/ns/net; sleep 600'
until [ "$(grep -c 'net:' names.out)" = 2 ]; do
    kill -0 $pid 2>/dev/null || fail "the first process: ended too early: $(cat err)"
    sleep 0.1
done
sed 's/^\[.\] //' names.out >names
for p in $(grep -lsF "NETNS_TEST=$dir" /proc/[0-9]*/environ || true); do
    [ "$(cat "${p%/environ}/comm" 2>/dev/null)" != foreline-netns ] || kill -TERM "$(echo "$p" | cut -d/ -f3)"
done
status=0
wait $pid || status=$?
[ $status = 143 ] && grep -q '^foreline.*interrupted.*15.*Terminated.*$' err ||
    fail "the first process: exit status $status, $(cat err)"
gone "the first process"

# Refusals: too fast for any machine, and what cannot be wired.
sed 's/100Mbps/900Tbps/' pair.xml >fast.xml
status=0
"$tool" emulate --platform fast.xml -- true >out 2>err || status=$?
[ $status = 1 ] && grep -q 'carries .*--dilate auto, or at least --dilate [0-9]' err || fail "too fast: $(cat err)"
{
    echo '<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd"><platform version="4.1">'
    echo '<zone id="z" routing="Vivaldi">'
    for p in a b; do
        echo "<peer id=\"$p\" speed=\"1Gf\" bw_in=\"1Gbps\" bw_out=\"1Gbps\" coordinates=\"1 2 3\"/>"
    done
    echo '</zone></platform>'
} >peers.xml
status=0
"$tool" emulate --platform peers.xml -- true >out 2>err || status=$?
[ $status = 1 ] && grep -q 'peers.xml:[0-9]*: .*coordinates' err ||
    fail "coordinates: $(cat err)"

outside >after
cmp before after || fail "the machine has changed: $(diff before after)"
