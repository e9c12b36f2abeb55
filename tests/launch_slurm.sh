#!/bin/sh
# Slurm on two machines: srun ends with the parameters of a run on one machine; the shards of a job array make the sweep of one process; a
# machine that vanishes is named, and the job ends. Usage: launch_slurm.sh FORELINE
set -u
foreline=$1 needs='munged slurmctld slurmd srun'
. "$(dirname "$0")/hosts.sh"
PATH=$PATH:/usr/sbin
fail() {
    echo "$*"
    exit 1
}
hash_of() {
    sed -n 's/.*"parameters_sha256": "\([0-9a-f]*\)".*/\1/p' "$@"
}

# One munged for all machines, whose socket is a file; no cgroups, any number of CPUs, short times.
mkdir slurm slurm/state && head -c 128 /dev/urandom >slurm/key && chmod 400 slurm/key && : >slurm/none
s=$dir/slurm
munged --force --key-file="$s/key" --socket="$s/munge" --pid-file="$s/munged.pid" --log-file="$s/munged.log" \
    --seed-file="$s/seed" || fail "munged: $(cat "$s/munged.log")"
cat >"$s/slurm.conf" <<END
ClusterName=test
SlurmctldHost=head
SlurmUser=root
AuthInfo=socket=$s/munge
StateSaveLocation=$s/state
SlurmdSpoolDir=$s/spool.%n
SlurmctldPidFile=$s/slurmctld.pid
SlurmdPidFile=$s/%n.pid
SlurmctldLogFile=$s/slurmctld.log
SlurmdLogFile=$s/%n.log
PlugStackConfig=$s/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SlurmdParameters=config_overrides
SlurmdTimeout=5
MessageTimeout=5
KillWait=2
UnkillableStepTimeout=5
PropagateResourceLimits=NONE
NodeName=n[1-2] CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP
END
export SLURM_CONF="$s/slurm.conf"
slurmctld -c || fail "slurmctld"
for i in 1 2; do mkdir "$s/spool.n$i" && on n$i slurmd -c || fail "slurmd"; done
tries=0
until [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 2 ]; do
    [ $((tries += 1)) -lt 200 ] || fail "$(sinfo -N -l; tail -n 5 "$s"/*.log)"
    sleep 0.1
done

"$foreline" plan --algorithm balanced --model gpt-tiny:layers=2,hidden=32,tokens=32 --platform laptop --stages 2 \
    --replicas 2 --microbatches 4 -o h.json >log 2>&1 || fail "$(cat log)"
"$foreline" run h.json --steps 3 --json >local.json 2>log || fail "$(cat log)"
wanted=$(hash_of local.json)
[ ${#wanted} = 64 ] || fail "no parameters: $(cat local.json)"

# the script of docs/reference/launch.md, without GPUs
cat >job.sh <<END
#!/bin/sh
export MASTER_ADDR=\$(scontrol show hostnames "\$SLURM_JOB_NODELIST" | head -n 1)
export FORELINE_TOKEN=\$(od -An -N16 -t x1 /dev/urandom | tr -d ' \n')
srun $foreline run $dir/h.json --launcher env "\$@"
END
batch() { # batch OUTPUT OPTION...: two machines, two ranks each
    output=$1
    shift
    sbatch --wait --nodes 2 --ntasks-per-node 2 -o "$output" job.sh "$@"
}
batch srun.out --steps 3 --json >log 2>&1 || fail "sbatch: $(cat log srun.out)"
[ "$(hash_of srun.out)" = "$wanted" ] || fail "srun: parameters $(hash_of srun.out), locally $wanted: $(cat srun.out)"

# without MASTER_ADDR nobody knows where to meet: said at once; and TCP with srun as the launcher, which is on head
sbatch --wait --nodes 2 --ntasks-per-node 2 -o lost.out --wrap "srun $foreline run $dir/h.json --launcher env" >log 2>&1
grep -q 'MASTER_ADDR.*Slurm.*2.*machines' lost.out || fail "no MASTER_ADDR: $(cat log lost.out)"
mkdir shared && TMPDIR=$dir/shared "$foreline" run h.json --launcher 'srun -N2 -n4 --ntasks-per-node=2' --address head \
    --steps 3 --json >tcp.json 2>log || fail "srun as launcher: $(cat log)"
[ "$(hash_of tcp.json)" = "$wanted" ] || fail "srun as launcher: parameters $(hash_of tcp.json), locally $wanted"
[ -z "$(ls shared)" ] || fail "srun as launcher: left $(ls shared)"

# sweep: three shards, then the database of all; each point as one process has it
printf '%s\n' 'model: gpt-tiny' 'platform: laptop' 'plan.algorithm: balanced' 'plan.stages: [1, 2, 4]' \
    'plan.microbatches: [4, 8]' >sweep.yml
mkdir whole && (cd whole && "$foreline" sweep ../sweep.yml --export tsv >../whole.tsv 2>/dev/null) || fail "sweep"
sbatch --wait --array=1-3 -o shard.%a.out --wrap "$foreline sweep sweep.yml --shard \$SLURM_ARRAY_TASK_ID/3" \
    >log 2>&1 || fail "sbatch --array: $(cat log shard.*)"
[ "$(find . -maxdepth 1 -name 'sweep.shard-*-of-3.db' | wc -l)" = 3 ] || fail "shards: $(ls)"
"$foreline" sweep sweep.yml --export tsv >shards.tsv 2>log || fail "$(cat log)"
[ "$(grep -vc '^#' whole.tsv)" -ge 6 ] && cmp whole.tsv shards.tsv || fail "shards differ from the whole"

# n2 vanishes: no packet of it comes any more
batch vanish.out --steps 900000 --timeout 5s >log 2>&1 &
tries=0
until [ "$(on n2 ps ax 2>/dev/null | grep -c '[f]oreline-worker')" = 2 ]; do
    [ $((tries += 1)) -lt 100 ] || fail "no workers on n2: $(cat log vanish.out)"
    sleep 0.1
done
sleep 2
unplug n2
tries=0
until grep -q ' on n2): timeout: no heartbeat for' vanish.out; do
    [ $((tries += 1)) -lt 300 ] || fail "n2 is not named: $(cat vanish.out)"
    sleep 0.1
done
grep ' on n2): timeout: no heartbeat for' vanish.out
