#!/bin/sh
# The packages on a bare Debian 12: apt installs them with what they need and nothing else, the tour works from /usr as a user,
# all shells find their completions, and after removal no file of them is left. Needs root and the network.
# Usage: package_chroot.sh DEBS
set -u
debs=$1
skip() {
    echo "skipped: $*"
    exit 77
}
fail() {
    echo "$*"
    exit 1
}
[ "$(id -u)" = 0 ] || skip "debootstrap needs root"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"
ls "$debs"/*.deb >/dev/null 2>&1 || skip "no packages in $debs"
dir=$(mktemp -d -p /var/tmp) && trap 'umount "$dir/root/proc" 2>/dev/null; rm -rf --one-file-system "$dir"' EXIT
root=$dir/root
debootstrap --variant=minbase bookworm "$root" http://deb.debian.org/debian >"$dir/log" 2>&1 ||
    skip "no Debian to be had: $(tail -n 1 "$dir/log")"
mount -t proc proc "$root/proc" && mkdir "$root/debs" && cp "$debs"/*.deb "$root/debs/"
cp /etc/resolv.conf "$root/etc/resolv.conf"
for file in /etc/apt/apt.conf.d/*proxy*; do [ -f "$file" ] && cp "$file" "$root/etc/apt/apt.conf.d/"; done
in_root() {
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"
}
files() { # what is there besides what is everybody's
    (cd "$root" && find . -xdev \( -path ./proc -o -path ./debs -o -path ./var/cache -o -path ./var/log -o -path ./var/lib \
        -o -path ./tmp -o -path ./etc/ld.so.cache \) -prune -o -print | sort)
}
purge="apt-get -q -y purge 'foreline*' 'libforeline*' python3-foreline"
# The steps of the Containerfile. What the packages need comes first, so that what is left afterwards is theirs.
sed -n 's/^RUN //p' "$(dirname "$0")/../package/Containerfile" >"$dir/steps"
while read -r step <&3; do
    case $step in *' install '*)
        in_root sh -c "$step && $purge" >"$dir/log" 2>&1 || fail "$(tail -n 15 "$dir/log")"
        files >"$dir/before"
        ;;
    esac
    in_root sh -c "$step" >"$dir/log" 2>&1 || fail "$step: $(tail -n 15 "$dir/log")"
done 3<"$dir/steps"
files >"$dir/with"

# the tour, as a user whose home is elsewhere
in_root su user -s /bin/sh -c 'cd && set -e
    foreline --version
    foreline plan --algorithm balanced --model gpt-tiny:layers=2,hidden=32,tokens=32 --platform laptop --stages 2 -o p.json
    foreline simulate p.json --json >s.json
    foreline simulate p.json --engine analytic >/dev/null
    foreline plan --model gpt2-small:layers=4 --platform two-racks --batch 32 -o best.json
    foreline run p.json --steps 3 -o m.json
    foreline run p.json --steps 3 --transport local
    foreline simulate p.json -o s.json
    foreline compare s.json m.json
    python3 -c "import foreline as fl; print(fl.simulate(fl.Plan(\"p.json\")), fl.sweep({\"plan\": \"p.json\"}))"
    foreline topology list
    foreline completion bash >/dev/null' >"$dir/log" 2>&1 || fail "as a user: $(tail -n 15 "$dir/log")"
grep -q '^p.json' "$dir/log" || fail "compare said nothing: $(tail -n 15 "$dir/log")"
for file in usr/share/bash-completion/completions/foreline usr/share/zsh/site-functions/_foreline \
    usr/share/fish/vendor_completions.d/foreline.fish usr/share/man/man1/foreline-plan.1.gz; do
    [ -s "$root/$file" ] || fail "/$file is not there"
done
in_root su user -s /bin/sh -c 'cd && rm -rf .cache ./*'

in_root sh -c "$purge" >"$dir/log" 2>&1 || fail "$(tail -n 15 "$dir/log")"
files >"$dir/after"
cmp -s "$dir/before" "$dir/with" && fail "the packages have no files"
diff "$dir/before" "$dir/after" || fail "files are left"
