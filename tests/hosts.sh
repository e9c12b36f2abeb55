#!/bin/sh
# Machines on this one: `head` and n1, n2 on a switch, each with its own network, host name, processes, /run and
# /dev/shm, and sshd on n1 and n2; files are shared. TEST runs on head, and everything ends with it, for all of it lives in
# its process namespace. Sourced by tests whose arguments are those of the test:
#
#   . hosts.sh        runs "$0" again as head, with $dir a folder of its own; returns there
#   on n1 COMMAND     run it there          unplug n2    its cable, as when a machine dies
#
# What is missing here is a skip with a reason (status 77).
skip() {
    echo "skipped: $*"
    exit 77
}
on() {
    pid=$(cat "$dir/$1.pid")
    shift
    nsenter -t "$pid" -m -n -u -i -p"/proc/$pid/ns/pid_for_children" sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
}
unplug() {
    ip link set "$1" down
}

self=$(readlink -f "$0")
case ${HOSTS_ROLE:-} in
'') # outside: nothing is mounted or made before the namespaces are new
    for tool in ip unshare nsenter ssh ssh-keygen /usr/sbin/sshd $needs; do
        PATH=$PATH:/usr/sbin command -v "$tool" >/dev/null || skip "$tool is not installed"
    done
    unshare --mount --net --uts --ipc --pid --fork true 2>/dev/null || skip "namespaces need root"
    dir=$(mktemp -d -p /var/tmp) && trap 'rm -rf "$dir"' EXIT
    HOSTS_ROLE=head HOSTS_DIR=$dir timeout -k 5 400 \
        unshare --mount --net --uts --ipc --pid --fork --kill-child --mount-proc "$self" "$@"
    exit $?
    ;;
n*) # a host: its own folders, then sshd as long as it lives
    dir=$HOSTS_DIR name=$HOSTS_ROLE
    hostname "$name"
    mount -t tmpfs -o mode=755 own /run && mount -t tmpfs -o mode=1777 own /dev/shm && mkdir /run/sshd
    ip link set lo up
    until ip -br link show eth0 2>/dev/null | grep -q UP; do sleep 0.05; done
    unset HOSTS_ROLE HOSTS_DIR
    exec /usr/sbin/sshd -D -f "$dir/sshd_config" -E "$dir/sshd.$name"
    ;;
esac

dir=$HOSTS_DIR
cd "$dir" || exit 1
hostname head
mount -t tmpfs -o mode=755 own /run
printf '127.0.0.1 localhost\n10.77.0.254 head\n10.77.0.1 n1\n10.77.0.2 n2\n' >hosts
mount --bind hosts /etc/hosts
ip link set lo up
ip link add br0 type bridge && ip addr add 10.77.0.254/24 dev br0 && ip link set br0 up
ssh-keygen -q -t ed25519 -N '' -f key && ssh-keygen -q -t ed25519 -N '' -f host || exit 1
echo "n* $(cut -d' ' -f1,2 host.pub)" >known
cat >sshd_config <<END
HostKey $dir/host
AuthorizedKeysFile $dir/key.pub
PermitRootLogin yes
StrictModes no
UsePAM no
PidFile none
MaxStartups 100
END
printf '%s\n' "IdentityFile $dir/key" 'IdentitiesOnly yes' "UserKnownHostsFile $dir/known" 'GlobalKnownHostsFile none' \
    'BatchMode yes' 'ConnectTimeout 5' 'LogLevel ERROR' >ssh_config
for i in 1 2; do
    HOSTS_ROLE=n$i setsid unshare --mount --net --uts --ipc --pid --fork --kill-child --mount-proc "$self" "$@" \
        </dev/null >"n$i.log" 2>&1 &
    echo $! >n$i.pid
    until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
    ip link add n$i type veth peer name eth0 netns $! && ip link set n$i master br0 up
    nsenter -t $! -n sh -c "ip addr add 10.77.0.$i/24 dev eth0; ip link set eth0 up"
done
for i in 1 2; do
    tries=0
    until ssh -F ssh_config n$i true 2>try; do
        [ $((tries += 1)) -lt 100 ] && kill -0 "$(cat n$i.pid)" || { cat try n$i.log sshd.n$i && exit 1; }
        sleep 0.05
    done
done
