#!/bin/sh
# validate end to end on paced runs: predictions come first, nothing is dropped, what was stopped
# goes on where it was, the same measurements give the same bytes. Usage: validate.sh FORELINE
set -eu
tool=$1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir"
fail() {
    echo "FAIL: $*" >&2
    exit 1
}
tiny=gpt-tiny:layers=2,hidden=32,tokens=32
validate() { "$tool" validate "$@" >out 2>err; }
data() { grep -v '^#' "$1"; }

# A grid with points that cannot be: all are accounted for.
grid="--model $tiny --platform laptop --stages 1,2,9 --schedules gpipe,1f1b --microbatches 4
    --compute paced --steps 3 --warmup 1 --repeats 2"
validate $grid -o g || fail "grid: $(cat err)"
[ "$(data out | wc -l)" = 4 ] || fail "rows: $(cat out)"
[ "$(grep -c '^# failed: s9-.*: 9 stages x 1 replicas need 9 devices, but platform laptop has 4' out)" = 2 ] ||
    fail "failed points: $(cat out)"
[ "$(grep -c '^# simgrid against tcp-paced: 4 plans; .*Kendall tau.*regret' out)" = 1 ] ||
    fail "summary: $(cat out)"
cmp -s out g/results.tsv || fail "results.tsv is not what was printed"
grep -q '^\* s9-gpipe: 9 stages' g/report.md || fail "report: $(cat g/report.md)"

# Predictions are older than runs, and are what their list says; repeats run all plans once each.
predicted=$(sed -n 's/^# written \([^,]*\), before.*/\1/p' g/predictions.tsv)
first=$(data g/runs.tsv | head -n 1 | cut -f 1)
[ -n "$predicted" ] && [ "$(printf '%s\n%s\n' "$predicted" "$first" | sort | head -n 1)" = "$predicted" ] ||
    fail "predicted at $predicted, first run at $first"
data g/predictions.tsv | while IFS='	' read -r plan engine _ hash; do
    [ "$(sha256sum <"g/predicted/$plan.$engine.json" | cut -d ' ' -f 1)" = "$hash" ] || exit 1
done || fail "hashes of predictions"
[ "$(data g/predictions.tsv | wc -l)" = 8 ] || fail "predictions: $(cat g/predictions.tsv)"
[ "$(data g/runs.tsv | head -n 4 | cut -f 4 | sort -u)" = 1 ] || fail "order: $(cat g/runs.tsv)"
[ "$(data g/runs.tsv | tail -n 4 | cut -f 4 | sort -u)" = 2 ] || fail "order: $(cat g/runs.tsv)"

# Again: nothing is run, the report has the same bytes. What is missing is made, and only that.
cp -r g before
validate $grid -o g || fail "again: $(cat err)"
diff -r g before || fail "a second start has changed something"
rm g/measured/s2-gpipe.2.json
validate $grid -o g || fail "one run missing: $(cat err)"
[ "$(data g/runs.tsv | wc -l)" = 9 ] && [ "$(data g/runs.tsv | tail -n 1 | cut -f 3,4)" = "s2-gpipe	2" ] ||
    fail "resumed: $(cat g/runs.tsv)"

# Another grid, and predictions that were changed afterwards, are refused.
status=0
validate $grid --seed 2 -o g || status=$?
[ $status = 1 ] && grep -q 'other plans' err || fail "other plans: $status $(cat err)"
sed 's/"cpu_s": [^,]*/"cpu_s": 1/' g/predicted/s1-1f1b.analytic.json >new
mv new g/predicted/s1-1f1b.analytic.json
status=0
validate $grid -o g || status=$?
[ $status = 1 ] && grep -q 'predictions were changed' err || fail "changed: $status $(cat err)"

# The experiment itself, as a file: the same grid in another folder, and points of a sweep.
validate before/experiment.yml -o y || fail "experiment: $(cat err)"
[ "$(data out | cut -f 1,2,3)" = "$(data before/results.tsv | cut -f 1,2,3)" ] ||
    fail "experiment: $(cat out)"
status=0
validate before/experiment.yml --engine mpi -o y || status=$?
[ $status = 2 ] && grep -q 'engine' err || fail "an engine twice: $status $(cat err)"
# A measurement that is older than the predictions cannot be one that they have not seen.
cp -r before seen && rm seen/predictions.tsv seen/predicted/s2-gpipe.simgrid.json
status=0
validate $grid -o seen || status=$?
[ $status = 1 ] && grep -q 'made before.*predictions' err || fail "seen: $status $(cat err)"

# Measurement files of others: same files, same bytes, wherever.
cp -r before one && cp -r before two
for d in one two; do
    (cd $d && sed -i 's/"plan": "g/"plan": "./' measured/*.json &&
        "$tool" validate --measurements measured/s*.json -o again >../$d.out 2>../err) ||
        fail "files: $(cat err)"
done
cmp one.out two.out && cmp one/again/report.md two/again/report.md || fail "reports differ"
for picture in scatter bars; do
    [ ! -e one/again/$picture.svg ] || cmp one/again/$picture.svg two/again/$picture.svg ||
        fail "pictures differ"
done
data one.out >one.data && data before/results.tsv | sort >grid.data
sort one.data | cmp - grid.data || fail "files and grid differ: $(cat one.data)"
grep -q 'predictions were made after the measurements' one/again/report.md || fail "honesty"

# A limit for CI: paced runs are never faster than predicted by half, and never exact.
(cd one && "$tool" validate --measurements measured/s1-1f1b.1.json --fail-above 100% >/dev/null) ||
    fail "within 100 %"
status=0
(cd one && "$tool" validate --measurements measured/s1-1f1b.1.json --fail-above 0% >/dev/null 2>../err) ||
    status=$?
[ $status = 1 ] && grep -q 'error of simgrid is .*--fail-above 0 %' err || fail "limit: $status $(cat err)"

# Plan files, on another engine's settings.
cp before/plans/s1-gpipe.json .
cp before/plans/s2-1f1b.json =s2.json
validate s1-gpipe.json =s2.json --compute paced --steps 2 --repeats 1 -o p || fail "plans: $(cat err)"
[ "$(data out | wc -l)" = 2 ] || fail "plans: $(cat out)"
tab=$(printf '\t')
grep -q "^'=s2$tab" p/predictions.tsv || fail "a formula in a table: $(cat p/predictions.tsv)"
grep -q "$tab'=s2$tab" p/runs.tsv || fail "a formula in a table: $(cat p/runs.tsv)"

cp s1-gpipe.json same.json
status=0
validate s1-gpipe.json same.json -o q || status=$?
[ $status = 2 ] && grep -q 'are the same plan' err || fail "the same plan twice: $status $(cat err)"

# The other engines, where there are any. SMPI is exact, so it must agree with SimGrid.
two="--model $tiny --stages 2 --microbatches 4 --repeats 1"
if command -v smpirun >/dev/null; then
    validate $two --platform laptop --engine smpi -o smpi || fail "smpi: $(cat err)"
    [ "$(data out | cut -f 11)" = "+0.00" ] || [ "$(data out | cut -f 11)" = "-0.00" ] ||
        fail "smpi: $(cat out)"
else
    echo "skipped: validate --engine smpi, there is no smpirun"
fi
if command -v mpirun >/dev/null && [ -x "$(dirname "$tool")/foreline-worker-mpi" ]; then
    validate $two --steps 2 --warmup 1 --platform laptop --engine mpi --compute paced -o mpi || fail "mpi: $(cat err)"
    [ "$(data out | cut -f 2)" = mpi-paced ] || fail "mpi: $(cat out)"
else
    echo "skipped: validate --engine mpi, there is no MPI"
fi
for rate in 100 400; do
    cat >net$rate.xml <<END
<?xml version='1.0'?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="z" routing="Full"><host id="a" speed="1Gf"/><host id="b" speed="1Gf"/>
<link id="l" bandwidth="${rate}Mbps" latency="10us" sharing_policy="SPLITDUPLEX"/>
<route src="a" dst="b"><link_ctn id="l" direction="UP"/></route></zone></platform>
END
done
if "$tool" emulate --check >/dev/null 2>&1; then
    validate $two --steps 2 --warmup 1 --platform net100.xml --platform net400.xml --engine netns -o netns ||
        fail "netns: $(cat err)"
    [ "$(data out | cut -f 1,2)" = "net100	netns
net400	netns" ] || fail "netns: $(cat out)"
    [ "$(grep -c '^# simgrid against netns on net' out)" = 2 ] || fail "platforms: $(cat out)"
else
    echo "skipped: validate --engine netns, there are no emulated networks here"
fi

# Stopped by Ctrl-C and by kill -9, then started again: every run once.
many="--model $tiny --platform laptop --stages 1,2 --microbatches 4 --compute paced --steps 5 --repeats 8"
for signal in INT KILL; do
    env --default-signal=INT setsid "$tool" validate $many -o k >out 2>err &
    pid=$!
    tries=0
    have=$(ls k/measured 2>/dev/null | wc -l)
    while [ "$(ls k/measured 2>/dev/null | wc -l)" -le $((have + 1)) ]; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] && kill -0 $pid || fail "$signal: nothing is measured: $(cat err)"
        sleep 0.05
    done
    if [ $signal = INT ]; then kill -s INT -- "-$pid"; else kill -KILL $pid; fi
    status=0
    wait $pid || status=$?
    [ $status -gt 128 ] || fail "$signal: status $status, $(cat err)"
    [ $signal = KILL ] || grep -q 'same command again' err || fail "$signal: $(cat err)"
    [ ! -e k/report.md ] || fail "$signal came too late"
done
validate $many -o k || fail "resumed: $(cat err)"
[ "$(data out | cut -f 3)" = "8
8" ] || fail "runs: $(cat out)"
[ "$(data k/runs.tsv | cut -f 3,4 | sort | uniq -d | wc -l)" = 0 ] || fail "twice: $(cat k/runs.tsv)"
echo "accounted for, resumed, reproducible"
