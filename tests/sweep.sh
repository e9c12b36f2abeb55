#!/bin/sh
# What becomes of a sweep that is killed, interrupted, cut into shards, started by mpirun, or given a
# file that is no database; and the shipped examples. Usage: sweep.sh FORELINE PART [POINTS KILLS MODEL]
set -u
foreline=$1
part=$2
model=${5:-mlp} # of experiment()
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
export XDG_CACHE_HOME="$dir/cache"

fail() {
    echo "$*"
    exit 1
}

# experiment FILE POINTS: as many points, a multiple of 20, every 20th of them impossible.
experiment() {
    {
        echo "name: resumed"
        echo "model: $model"
        echo "platform: laptop"
        printf 'plan.microbatches: ['
        seq -s ', ' 1 $(($2 / 20))
        echo "]"
        echo "plan.algorithm: uniform"
        echo "plan.stages: [1, 2, 3, 4, 64]"
        echo "plan.schedule: [gpipe, 1f1b]"
        echo "jitter: [0%, 5%]"
        echo "finalists: 1"
    } | sed 's/\]$/]/; s/, \]/]/' >"$1"
}

# Rows of a database by experiment number, without what differs from run to run.
rows() {
    sqlite3 -separator '|' "$1" "SELECT number, finalist, point.*, result.* FROM member
        JOIN point USING(hash) LEFT JOIN result USING(hash) ORDER BY number, finalist" ||
        fail "sqlite3 $1"
}

points_of() {
    kept=$(sqlite3 "$1" 'SELECT count(*) FROM point' 2>/dev/null)
    echo "${kept:-0}"
}

sound() {
    [ "$(sqlite3 "$1" 'PRAGMA integrity_check')" = ok ] || fail "$1: integrity_check"
}

same() {
    rows "$1" >one
    rows "$2" >two
    cmp -s one two || { diff one two | head -5; fail "$1 and $2 differ"; }
    [ -s one ] || fail "$1: no rows"
}

killed() {
    points=${1:-400} kills=${2:-3} seed=1
    experiment exp.yml "$points"
    "$foreline" sweep exp.yml -o whole.db >whole.txt 2>/dev/null || fail "uninterrupted: $?"
    computed=$(points_of whole.db)
    for i in $(seq "$kills"); do # about as far as its share, further than before, a little at random
        target=$((computed * i / (kills + 1))) before=$(points_of killed.db)
        [ "$target" -gt "$before" ] || target=$((before + 1))
        seed=$(((seed * 1103515245 + 12345) % 2147483648))
        "$foreline" sweep exp.yml -o killed.db >/dev/null 2>&1 &
        process=$!
        while kill -0 "$process" 2>/dev/null &&
            [ "$(points_of killed.db)" -lt "$target" ]; do
            :
        done
        sleep "0.0$((10 + seed / 65536 % 30))"
        kill -9 "$process" 2>/dev/null
        wait "$process" 2>/dev/null
        sound killed.db
        echo "kill $i: $(points_of killed.db) of $computed points kept"
    done
    "$foreline" sweep exp.yml -o killed.db >killed.txt 2>/dev/null || fail "resumed: $?"
    sound killed.db
    same whole.db killed.db
    cmp whole.txt killed.txt || fail "the tables differ"
    twice=$("$foreline" sweep exp.yml -o killed.db 2>&1 >/dev/null)
    case $twice in *"; 0 computed now"*) ;; *) fail "computed twice: $twice" ;; esac
    echo "$computed points, killed $kills times: as uninterrupted"
}

shards() {
    experiment exp.yml 100
    "$foreline" sweep exp.yml -o one.db >one.txt 2>/dev/null || fail "one process: $?"
    "$foreline" sweep exp.yml -o many.db --shard 1/2 >/dev/null 2>&1 || fail "shard 1/2: $?"
    "$foreline" sweep exp.yml -o many.db --shard 2/2 >/dev/null 2>&1 || fail "shard 2/2: $?"
    [ ! -e many.db ] || fail "a shard wrote into the common database"
    "$foreline" sweep exp.yml -o many.db >many.txt 2>note || fail "gathering: $?"
    same one.db many.db
    cmp one.txt many.txt || fail "the tables differ"
    # All that was left to do are the finalists.
    finalists=$(sqlite3 one.db 'SELECT count(*) FROM member WHERE finalist')
    grep -q "; $finalists computed now" note || fail "not taken over: $(cat note)"
}

ranks() {
    command -v mpirun >/dev/null || { echo "skipped: mpirun is not installed"; exit 77; }
    experiment exp.yml 100
    "$foreline" sweep exp.yml -o one.db >one.txt 2>/dev/null || fail "one process: $?"
    mpirun --allow-run-as-root --oversubscribe -n 2 "$foreline" sweep exp.yml -o many.db \
        >mpi.txt 2>&1 || fail "mpirun: $? $(cat mpi.txt)"
    [ -e many.shard-1-of-2.db ] && [ -e many.shard-2-of-2.db ] || fail "$(ls)"
    "$foreline" sweep exp.yml -o many.db >many.txt 2>/dev/null || fail "gathering: $?"
    same one.db many.db
    cmp one.txt many.txt || fail "the tables differ"
    # In a Slurm batch script, outside of srun, there is one process for all.
    SLURM_PROCID=0 SLURM_NTASKS=4 "$foreline" sweep exp.yml -o slurm.db >slurm.txt 2>/dev/null
    cmp one.txt slurm.txt || fail "a batch script is no rank"
}

interrupted() {
    experiment exp.yml 2000
    setsid "$foreline" sweep exp.yml -o stopped.db >/dev/null 2>note &
    process=$!
    for i in $(seq 100); do
        [ "$(points_of stopped.db)" -gt 5 ] && break
        sleep 0.1
    done
    kill -INT "$process"
    wait "$process"
    status=$?
    [ "$status" = 130 ] || fail "status $status: $(cat note)"
    grep -q 'same command again' note || fail "$(cat note)"
    sound stopped.db
    ls stopped.db-lock 2>/dev/null && fail "the lock is left behind"
    [ "$(points_of stopped.db)" -gt 5 ] || fail "nothing kept"
}

# refuses WHAT FILE: one line that names the file, and status 1.
refuses() {
    "$foreline" sweep exp.yml -o "$2" >out 2>note
    status=$?
    [ "$status" = 1 ] || fail "$1: status $status"
    [ "$(wc -l <note)" = 1 ] || fail "$1: $(cat note)"
    grep -q "$2: .*$3" note || fail "$1: $(cat note)"
    cat note
}

faults() {
    experiment exp.yml 20
    printf 'this is a text of some length, and certainly not an SQLite database, at all\n%.0s' \
        $(seq 40) >text.db
    refuses "not a database" text.db 'not an SQLite database'
    sqlite3 other.db 'CREATE TABLE cats(name TEXT)'
    refuses "another's database" other.db 'not a database of foreline sweep'
    "$foreline" sweep exp.yml -o good.db >/dev/null 2>&1 || fail "good.db"
    sqlite3 good.db 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
    cp good.db newer.db
    sqlite3 newer.db 'PRAGMA user_version=99'
    refuses "of a newer version" newer.db 'newer foreline'
    head -c 12288 good.db >short.db
    refuses "truncated" short.db 'damaged'
    for file in text other newer short; do # and none of them can be reported
        "$foreline" report "$file.db" -o page.html 2>note && fail "report of $file.db"
        [ "$(wc -l <note)" = 1 ] && grep -q "$file.db: " note || fail "report: $(cat note)"
        [ ! -e page.html ] || fail "half a page about $file.db"
    done
    # what SQLite keeps beside a database to read it cannot be written: it is read all the same
    mkdir fixed && cp good.db fixed
    if unshare -m true 2>note; then
        unshare -m sh -c "mount --bind fixed fixed && mount -o remount,bind,ro fixed &&
            '$foreline' plot throughput fixed/good.db -o seen.svg" >out 2>&1 && [ -s seen.svg ] ||
            fail "a database in a folder that nobody can write to: $(cat out)"
    else
        echo "not tried: a folder that nobody can write to ($(cat note))"
    fi
    mkdir folder.db
    refuses "a folder" folder.db 'not a regular file'
    refuses "no such folder" nowhere/x.db 'No such file'
    cp good.db busy.db
    { echo 'BEGIN EXCLUSIVE;'; sleep 14; } | sqlite3 busy.db &
    holder=$!
    sleep 0.5
    refuses "locked" busy.db 'locked by another program'
    wait "$holder"
    if [ "$(id -u)" = 0 ]; then
        echo "not tried as root: a file without write permission"
    else
        cp good.db fixed.db
        chmod 444 fixed.db
        refuses "read-only" fixed.db 'Permission denied'
    fi
}

# Runs are points like predictions.
runs() {
    printf 'model: mlp\nplatform: laptop\nengine: [simgrid, smpi, tcp]\nplan.stages: 2\n' >exp.yml
    printf 'plan.algorithm: balanced\nplan.microbatches: 4\ncompute: paced\nsteps: 2\n' >>exp.yml
    "$foreline" sweep exp.yml --export tsv >rows.tsv 2>note || fail "$(cat note)"
    grep -q '3 ok' note || fail "$(cat note rows.tsv)"
    # Four messages in a row decide; each is 16 bytes longer under SMPI, at 4 GB/s (docs/reference/emulation.md).
    awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "iteration_s") c = i; next }
        { t[NR] = $c } END { print t[2], t[3], t[4]; apart = t[3] - t[2] - 4 * 16 / 4e9
            exit !(t[2] > 0 && t[4] > 0 && apart < 1e-12 && apart > -1e-12) }' rows.tsv ||
        fail "smpi ran something else than simgrid"
    ls /tmp/foreline-sweep-* 2>/dev/null && fail "files are left behind"
    # Predictions are put into the database before the first run is, whatever the file's order.
    sed -i 's/^engine:.*/engine: [tcp, simgrid, smpi, analytic]/; s/microbatches: 4/microbatches: [4, 6]/' exp.yml
    "$foreline" sweep exp.yml -o order.db >/dev/null 2>note &
    tool=$! seen=""
    while kill -0 $tool 2>/dev/null; do
        now=$(sqlite3 "file:order.db?mode=ro" "SELECT count(CASE WHEN engine IN ('tcp', 'smpi') THEN 1 END) || ':' ||
            count(CASE WHEN engine IN ('simgrid', 'analytic') THEN 1 END) FROM result" 2>/dev/null)
        case $now in
        "" | 0:*) ;;
        *:4) seen=yes ;;
        *) fail "of predictions and runs there are $now" ;;
        esac
    done
    wait $tool || fail "$(cat note)"
    [ "$seen" = yes ] || fail "no run was seen beside predictions"
    return 0
}

# The last picture's table: its columns' names, behind notes, and its rows.
drawn() {
    [ "$(grep '^#' "$1" | tail -n 1)" = "$2" ] || fail "$1: $(grep '^#' "$1" | tail -n 1), expected $2"
    [ "$(grep -vc '^#' "$1")" = "$3" ] || fail "$1: $(grep -vc '^#' "$1") rows, expected $3"
}

# says PAGE TEXT...
says() {
    page=$1
    shift
    for text in "$@"; do
        grep -q -- "$text" "$page" || fail "$page does not say '$text'"
    done
}

# What pages begin with; where nothing is chosen, or nothing but the plan varies, no plan is "the best everywhere".
answers() {
    laptop='model: mlp\nplatform: laptop\nplan: {algorithm: uniform, microbatches: 4}\n'
    printf "# One?\n${laptop}jitter: [0%%, 5%%]\n" >one.yml
    "$foreline" sweep one.yml >/dev/null 2>note || fail "$(cat note)"
    [ "$("$foreline" report one.db)" = one.html ] || fail "report does not name its page"
    says one.html 'Of 2 places: the best is' '<h2>Every combination</h2>'
    grep -q 'Behind the best\|Where the best plan' one.html && fail "a plan is compared with itself"
    printf "${laptop}cases: [{name: few, jitter: 0%%}, {name: more, plan.stages: 2}]\n" >two.yml
    "$foreline" sweep two.yml >/dev/null 2>note || fail "$(cat note)"
    [ "$("$foreline" report two.db -o - | tail -n 1)" = '</body></html>' ] || fail "a name behind the page"
    "$foreline" report two.db >/dev/null && says two.html 'Of 2 combinations: the best is'
    # One device has no use for a network: all are as fast, and the slowest one is the cheapest.
    echo 'nic: 3/Gbps' >prices.yml
    printf "model: mlp\nplatform: rail:nodes=2,gpus=1,type=A100\nplatform.nic: [400Gbps, 200Gbps]\ndevices: 1\n" >priced.yml
    printf "plan: {algorithm: uniform, microbatches: 4}\nprices: prices.yml\n" >>priced.yml
    "$foreline" sweep priced.yml >/dev/null 2>note || fail "$(cat note)"
    "$foreline" report priced.db >/dev/null && says priced.html '(1 other is within 0.5 % of it)' \
        'The best for its price is [^:]*200 *Gb[^:]*: it costs'
    # Cases of plans are plans: between them there is a best one, which can change. Of what is impossible no
    # figure is known. A bandwidth that nothing uses does not count.
    printf 'model: gpt2-medium\nplatform: hidup-8xv100\nplatform.nic.bandwidth: [1Gbps, 2Gbps]\n' >cases.yml
    printf 'devices: [2, 16]\nplan: {algorithm: balanced, replicas: fill, microbatches: 32}\n' >>cases.yml
    printf 'cases: [{name: wide, plan.stages: 1}, {name: deep, plan: {stages: 8}}]\n' >>cases.yml
    "$foreline" sweep cases.yml >best 2>note || fail "$(cat note)"
    grep -q '^platform.nic.bandwidth  devices  best case' best || fail "$(head -1 best)"
    "$foreline" report cases.db >/dev/null || fail "cases"
    says cases.html \
        'The best of all is wide with platform.nic.bandwidth 1Gbps, devices 2: ' \
        'at 16 from wide to deep (platform.nic.bandwidth 1Gbps)' '<td>samples/s</td><td>[0-9.]*</td><td>-</td>' \
        '<tr><th scope="col">platform.nic.bandwidth</th><th scope="col">devices</th>'
    sed 's/devices: .*/devices: 2/' cases.yml >unused.yml
    "$foreline" sweep unused.yml >/dev/null 2>note || fail "$(cat note)"
    "$foreline" report unused.db >/dev/null || fail "unused"
    says unused.html 'Everywhere.*counted.*1.*platform.nic.bandwidth'
    # The median of seeds, as in pictures.
    printf "${laptop}repeats: 3\njitter: 30%%\nplan.stages: [1, 2]\n" >seeds.yml
    "$foreline" sweep seeds.yml 2>note >best || fail "$(cat note)"
    "$foreline" plot throughput seeds.db --x plan.stages -o seeds.svg || fail "seeds"
    drawn=$(grep -v '^#' seeds.tsv | cut -f 3 | sort -g | tail -n 1)
    awk -v drawn="$drawn" 'NR == 2 { exit sprintf("%.4g", drawn) != $2 }' best || fail "$drawn: $(cat best)"
}

# From a sweep to pictures and a page: the table that --export writes, and the database itself.
pages() {
    command -v gnuplot >/dev/null || { echo "skipped: gnuplot is not installed"; exit 77; }
    printf '# Which one?\nmodel: gpt2-medium\nplatform: hidup-8xv100\ndevices: 16\nplan: ' >exp.yml
    printf '{algorithm: balanced, stages: [1, 8, 64], replicas: fill, microbatches: 32}\n' >>exp.yml
    printf 'platform.nic.bandwidth: [1Gbps, 400Gbps]\nfinalists: 2\n' >>exp.yml
    "$foreline" sweep exp.yml -o exp.db >best 2>note || fail "$(cat note)"
    "$foreline" sweep exp.yml -o exp.db --export tsv >exp.tsv 2>note || fail "$(cat note)"
    # Points of 64 stages are impossible, two are SimGrid's: neither is drawn.
    columns=$(printf '# plan\tplatform.nic.bandwidth (Gb/s)\tsamples per second')
    "$foreline" plot throughput exp.tsv -o a.svg || fail "a table"
    drawn a.tsv "$columns" 4
    "$foreline" plot throughput exp.db -o b.svg || fail "a database"
    drawn b.tsv "$columns" 4
    sed 1d a.tsv >one; sed 1d b.tsv >two; cmp one two || fail "the database has other rows"
    "$foreline" plot regret exp.db --where engine=simgrid -o c.svg || fail "by simgrid"
    "$foreline" report exp.db -o page.html || fail "report"
    cp page.html first.html
    "$foreline" report exp.db -o page.html || fail "report again"
    cmp first.html page.html || fail "the same page has other bytes"
    for text in 'Which one?' 'best plan changes from A to B' 'exposed' 'exp.yml' '2 impossible'; do
        grep -q "$text" page.html || fail "the page does not say '$text'"
    done
    grep -Eq '(src|href)="http' page.html && fail "the page asks for something"
    sqlite3 exp.db 'UPDATE member SET number = 99 WHERE number = 5'
    "$foreline" report exp.db -o bad.html 2>note && fail "a point that is none is taken"
    grep -q 'refers to point 99, .* 6 points' note || fail "$(cat note)"
    [ ! -e bad.html ] || fail "half a page"
    answers
    "$foreline" report nowhere.db 2>note && fail "no database"
    grep -q 'nowhere.db: No such file' note || fail "$(cat note)"
}

# --retry computes what failed again, and nothing else.
retried() {
    experiment exp.yml 40
    "$foreline" sweep exp.yml -o r.db >first 2>/dev/null || fail "first: $?"
    sqlite3 r.db "UPDATE point SET status = 'failed', reason = 'it was made to'
        WHERE hash IN (SELECT hash FROM member WHERE number IN (3, 8) AND finalist = 0)"
    "$foreline" sweep exp.yml -o r.db >second 2>note || fail "second: $?"
    grep -q '2 failed' note || fail "without --retry: $(cat note)"
    "$foreline" sweep exp.yml -o r.db --retry >third 2>note || fail "third: $?"
    grep -q '; 2 computed now' note || fail "--retry: $(cat note)"
    cmp first third || fail "the tables differ"
}

# On a terminal there is a line of progress, and it is gone at the end.
progress() {
    command -v script >/dev/null || { echo "skipped: script (bsdutils) is not installed"; exit 77; }
    experiment exp.yml 6000
    script -qec "$foreline sweep exp.yml -o p.db >/dev/null" screen </dev/null >/dev/null
    grep -aq 'of 6000 points, .*/s, [0-9]* s left' screen || fail "no progress: $(head -c 300 screen)"
    grep -aq 'p.db: 6000 points' screen || fail "$(tail -c 300 screen)"
}

# The experiments of HiDup's paper: every point has a result, halves that take turns are never slower than the
# whole, no noise finds a faster plan, and where no slots are rounded HiDup is faster than DeepSpeed.
hidup() {
    for file in "$here"/../examples/hidup/${1:-*}.yml; do
        "$foreline" sweep "$file" -o hidup.db --add >table 2>note || fail "$file: $(cat note)"
        grep -Eq ' failed| impossible' note && fail "$(cat note)"
        "$foreline" sweep "$file" -o hidup.db --export tsv 2>/dev/null >points
        awk -F '\t' 'NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
            { s = column["system"]; t = $column["iteration_s"]; noise = $column["relative_time"]; where = "" }
            match($column["case"], /^(HiDup|DeepSpeed-like), (512|1024) /) { # rounds nothing
                last = $column["case"] ~ /^H/ ? t : last
                if (t < last) { print "slower than DeepSpeed: " $0; exit 1 } }
            column["noise"] && noise < 1 { print "noise helps: " $0; exit 1 }
            { for (i = 1; column["plan"] && i < s; i++) where = where FS $i }
            s && $s == "HiDup" { halves[where] = t; n++ }
            s && $s == "HiDup whole" && t < halves[where] { print "halves are slower: " $0; exit 1 }
            END { if (NR < 13 || (s && n < 8)) { print NR " rows, " n " of HiDup"; exit 1 } }' points || fail "$file"
        echo "$(basename "$file"): $(cut -d: -f2 note)"
    done
}

# Every experiment of examples/ is read, and has points; cli.examples runs them.
examples() {
    for file in "$here"/../examples/*/*.yml; do
        [ "$(basename "$file")" != prices.yml ] || continue # not an experiment
        "$foreline" sweep "$file" --list >table 2>note || fail "$file: $(cat note)"
        [ "$(wc -l <table)" -gt 3 ] || fail "$file: $(cat table)"
    done
}

case $part in
killed) killed "${3:-}" "${4:-}" ;;
shards | ranks | interrupted | faults | runs | pages | retried | progress | examples | hidup) "$part" ;;
*) fail "no part '$part'" ;;
esac
