#!/bin/sh
# SimGrid's example platforms: each is simulated alike by both engines, or refused by both in the same line.
# Usage: simgrid_examples.sh FORELINE [table]; SIMGRID_EXAMPLES names the folder examples/platforms of SimGrid's source.
# With `table` prints docs/results' rows: file, result of simgrid, of analytic, reason.
foreline=$1
folder=${SIMGRID_EXAMPLES:-}
if [ -z "$folder" ] || ! [ -f "$folder/small_platform.xml" ]; then
    echo "skipped: SIMGRID_EXAMPLES=FOLDER says where SimGrid's examples/platforms are"
    exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0 read=0 refused=0

# How many devices a platform has; 0 when it is refused.
devices() {
    "$foreline" topology check "$1" 2>/dev/null | sed -n 's/.*: ok: \([0-9]*\) device.*/\1/p'
}

# The seconds of an iteration, or the line that says why not, without the command and the folder.
result() { # ENGINE PLAN
    if "$foreline" simulate "$2" --engine "$1" --json >"$work/json" 2>"$work/error"; then
        sed -n 's/^ *"iteration_s": \([^,]*\),*$/\1/p' "$work/json"
    else
        tail -n 1 "$work/error" | sed "s|^foreline [a-z]*: ||; s|$folder/||g"
    fi
}

# Whether two numbers are equal to 1e-6.
alike() {
    awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(a > 0 && d <= 1e-6 * a && -d <= 1e-6 * a) }'
}

for file in "$folder"/*.xml; do
    name=$(basename "$file")
    n=$(devices "$file")
    if [ -z "$n" ]; then
        # Plans are made for platforms that can be read: here the engines are given one for any other.
        reason=$("$foreline" topology check "$file" 2>&1 | tail -n 1 | sed "s|^foreline topology: ||; s|$folder/||g")
        sed "/platform_sha256/d; s|\"platform\": \"[^\"]*\"|\"platform\": \"$file\"|" "$work/any.json" >"$work/plan.json"
        a=$(result simgrid "$work/plan.json") b=$(result analytic "$work/plan.json")
        simgrid=refused analytic=refused
        case $reason in
            "$name:"[0-9]*:*) ;;
            *) failed=1; echo "$name: no line: $reason" >&2 ;;
        esac
        [ "$a" = "$b" ] && case $a in *"$reason"*) ;; *) false ;; esac || {
            failed=1
            echo "$name: simgrid says '$a', analytic '$b', topology '$reason'" >&2
        }
        refused=$((refused + 1))
    else
        replicas=1 stages=$n
        [ "$n" -ge 4 ] && replicas=2 stages=$((n / 2))
        [ "$stages" -gt 8 ] && stages=8
        "$foreline" plan --model mlp:layers=8 --platform "$file" --stages $stages --replicas $replicas --microbatches 8 \
            --microbatch-size 1 -o "$work/plan.json" >"$work/out" 2>&1 || { cat "$work/out" >&2; failed=1; continue; }
        cp "$work/plan.json" "$work/any.json"
        simgrid=$(result simgrid "$work/plan.json") analytic=$(result analytic "$work/plan.json")
        alike "$simgrid" "$analytic" || {
            failed=1
            echo "$name: simgrid $simgrid, analytic $analytic" >&2
        }
        reason="$n devices"
        read=$((read + 1))
    fi
    [ "$2" = table ] && printf '| %s | %s | %s | %s |\n' "$name" "$simgrid" "$analytic" "$reason"
done
echo "$read simulated alike, $refused refused alike" >&2
[ "$read" -gt 0 ] && exit $failed
