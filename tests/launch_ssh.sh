#!/bin/sh
# Runs over two machines that ssh reaches: ranks by hand, with torchrun's variables, by ssh, and by mpirun, end with the parameters of a
# run on one machine; a machine that vanishes is named. Usage: launch_ssh.sh FORELINE
set -u
unset OPENBLAS_CORETYPE # which ssh does not hand on: other kernels, other bits
foreline=$1 needs=mpirun
. "$(dirname "$0")/hosts.sh"
fail() {
    echo "$*"
    exit 1
}
hash_of() {
    sed -n 's/.*"parameters_sha256": "\([0-9a-f]*\)".*/\1/p' "$@"
}
"$foreline" plan --algorithm balanced --model gpt-tiny:layers=2,hidden=32,tokens=32 --platform laptop --stages 2 \
    --replicas 2 --microbatches 4 -o h.json >log 2>&1 || fail "$(cat log)"
"$foreline" run h.json --steps 3 --json >local.json 2>log || fail "$(cat log)"
wanted=$(hash_of local.json)
[ ${#wanted} = 64 ] || fail "no parameters: $(cat local.json)"

# by hand: ranks 0 and 1 on n1, 2 and 3 on n2; torchrun's agent adds TORCHELASTIC_USE_AGENT_STORE
by_hand() { # by_hand PORT VARIABLES OPTION...: what each rank says goes to by_hand.RANK
    port=$1 more=$2
    shift 2
    pids=''
    for rank in 0 1 2 3; do
        ssh -F ssh_config n$((rank / 2 + 1)) "cd $dir && $more RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$((rank % 2)) \
            MASTER_ADDR=n1 MASTER_PORT=$port FORELINE_TOKEN=0123456789abcdef0123456789abcdef \
            $foreline run h.json --launcher env $*" >by_hand.$rank 2>&1 &
        pids="$pids $!"
    done
}
for more in '' TORCHELASTIC_USE_AGENT_STORE=True; do
    by_hand 29500 "$more" --steps 3 --json
    for pid in $pids; do wait "$pid" || fail "ssh $more: $(tail -n 3 by_hand.*)"; done
    [ "$(hash_of by_hand.0)" = "$wanted" ] || fail "ssh $more: parameters $(hash_of by_hand.0), locally $wanted"
done

# by ssh, as a list says; and as machines of a driver file of PipeDream, whose run a script ends
mkdir bin runs tmp && printf '#!/bin/sh\nexec /usr/bin/ssh -F %s/ssh_config "$@"\n' "$dir" >bin/ssh && chmod +x bin/ssh
TMPDIR=$dir/tmp PATH=$dir/bin:$PATH "$foreline" run h.json --hosts n1:2,n2:2 --address head --steps 3 --log ssh.log \
    --json >ssh.json 2>log || fail "ssh: $(cat log)"
[ "$(hash_of ssh.json)" = "$wanted" ] || fail "ssh: parameters $(hash_of ssh.json), locally $wanted"
grep -q '^rank 3 of 4 on n2' ssh.log.3 || fail "ssh: $(cat ssh.log.3)"
[ -z "$(ls tmp)" ] || fail "ssh: left $(ls tmp)"
printf '%s\n' "log_directory: $dir/runs" 'module: models.x.gpus=2' "machines: ['n1:0', 'n2:0']" 'epochs: 900000' \
    'model_type: translation' 'model: "gpt-tiny:layers=2,hidden=32,tokens=32"' 'address: head' 'print_frequency: 1' \
    'plan: {algorithm: balanced, stages: 2, microbatches: 4}' >two.yml
TMPDIR=$dir/tmp PATH=$dir/bin:$PATH "$foreline" run --config two.yml >log 2>&1 &
pid=$!
tries=0
until grep -q '^step' log; do
    [ $((tries += 1)) -lt 300 ] && kill -0 $pid || fail "driver: $(cat log)"
    sleep 0.1
done
PATH=$dir/bin:$PATH sh runs/two-*/terminate || fail "terminate: $?"
wait $pid && fail "a run that was ended ends well"
for host in n1 n2; do
    tries=0
    while on $host ps ax | grep -q '[f]oreline-worker'; do
        [ $((tries += 1)) -lt 200 ] || fail "workers stay on $host"
        sleep 0.1
    done
done

# mpirun, by a hostfile
printf 'n1 slots=2\nn2 slots=2\n' >machines
export OMPI_MCA_plm_rsh_agent="ssh -F $dir/ssh_config" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
TMPDIR=$dir/tmp "$foreline" run h.json --transport mpi --hosts machines --address head --steps 3 \
    --json >mpi.json 2>log || fail "mpirun: $(cat log)"
[ -z "$(ls tmp)" ] || fail "mpirun: left $(ls tmp)"
[ "$(hash_of mpi.json)" = "$wanted" ] || fail "mpirun: parameters $(hash_of mpi.json), locally $wanted"

"$foreline" run h.json --transport mpi --hosts machines --steps 3 >log 2>&1 && fail "no --address: success"
grep -q "machines: workers on 'n1' do not reach 127.0.0.1: --address" log || fail "no --address: $(cat log)"
# n2 vanishes: under mpirun nothing stays on head
TMPDIR=$dir/tmp "$foreline" run h.json --transport mpi --hosts machines --address head --steps 900000 --timeout 4s \
    >mpi.cut 2>&1 &
pid=$!
tries=0
until [ "$(on n2 ps ax 2>/dev/null | grep -c '[f]oreline-worker')" = 2 ]; do
    [ $((tries += 1)) -lt 200 ] || fail "no workers of mpirun on n2: $(cat mpi.cut)"
    sleep 0.1
done
sleep 1
unplug n2
wait $pid && fail "mpirun ended well without n2"
grep -q ' on n2): timeout: no heartbeat for' mpi.cut || fail "n2 is not named: $(cat mpi.cut)"
tries=0
while left=$(ps -eo pid,args | grep '[s]sh .*orted\|[m]pirun'); do # killed ones may still be on their way out
    [ $((tries += 1)) -lt 20 ] || fail "left on head: $left"
    sleep 0.1
done
ip link set n2 up
tries=0
while on n2 ps ax | grep -q '[f]oreline-worker'; do
    [ $((tries += 1)) -lt 200 ] || fail "workers stay on n2 when it is back"
    sleep 0.1
done

# n2 vanishes: no packet of it comes any more
by_hand 29501 '' --steps 900000 --timeout 5s
tries=0
until [ "$(on n2 ps ax 2>/dev/null | grep -c '[f]oreline-worker')" = 2 ]; do
    [ $((tries += 1)) -lt 100 ] || fail "no workers on n2: $(tail -n 3 by_hand.*)"
    sleep 0.1
done
sleep 2
unplug n2
for rank in 0 1; do
    wait "$(echo $pids | cut -d' ' -f$((rank + 1)))" && fail "rank $rank ended well without n2"
done
grep -q ' on n2): timeout: no heartbeat for' by_hand.0 || fail "n2 is not named: $(cat by_hand.0)"
tail -n 1 by_hand.0
