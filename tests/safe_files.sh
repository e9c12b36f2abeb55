#!/bin/sh
# Files and folders of strangers run nothing, write nowhere else and draw nothing on the terminal.
# Usage: safe_files.sh FORELINE
set -u
foreline=$1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
export XDG_CACHE_HOME="$dir/cache" TMPDIR="$dir/tmp"
mkdir tmp
escape=$(printf '\033')

fail() {
    echo "FAIL: $*"
    exit 1
}
shows_no_escape() { # shows_no_escape FILE WHAT
    ! grep -q "$escape" "$1" || fail "$2: prints an escape: $(cat "$1")"
}

# A repository whose configuration and attributes name programs.
if command -v git >/dev/null; then
    mkdir 're po' && cd 're po' || exit 2
    printf 'model: mlp\nplatform: laptop\ncompute: paced\nsteps: 1\nwarmup: 0\n' >run.yml
    printf 'plan: {algorithm: balanced, stages: 2, microbatches: 2}\n' >>run.yml
    echo before >file
    echo '* filter=evil diff=evil' >.gitattributes
    git init -q . && git add . && git -c user.name=a -c user.email=a@b commit -qm first || fail git
    echo after >file
    for key in diff.external diff.evil.command diff.evil.textconv core.fsmonitor core.pager \
        filter.evil.clean filter.evil.smudge filter.evil.process core.sshCommand; do
        git config $key "touch '$dir/ran-$key'; cat"
    done
    mkdir -p .git/hooks
    printf '#!/bin/sh\ntouch "%s/ran-hook"\n' "$dir" >.git/hooks/post-index-change
    chmod +x .git/hooks/post-index-change
    GIT_EXTERNAL_DIFF="touch '$dir/ran-variable'" "$foreline" run --config run.yml >../out 2>&1 ||
        fail "run: $(cat ../out)"
    cd ..
    for ran in ran-*; do
        [ ! -e "$ran" ] || fail "run --config ran $ran"
    done
    grep -q '^+after' 're po'/run-*/git || fail "no difference: $(cat 're po'/run-*/git)"
fi

# Names of experiments are names of files.
mkdir in && cd in || exit 2
for name in ../x /x .x; do
    printf 'name: "%s"\nmodel: mlp\nplatform: laptop\n' "$name" >name.yml
    for command in "sweep name.yml" "run --config name.yml --dry-run"; do
        # shellcheck disable=SC2086 # words
        "$foreline" $command >../out 2>&1 && fail "$command, name $name: accepted"
        grep -q 'name.yml:1: name: .* is not a valid file name' ../out ||
            fail "$command, name $name: $(cat ../out)"
    done
done
cd ..
[ ! -e x.db ] || fail "name: ../x writes there"

# Databases are tables: a view without an end, a trigger, a virtual table are refused at once by all who read them.
if command -v sqlite3 >/dev/null; then
    mkdir base && cd base || exit 2
    printf 'name: e\nmodel: mlp\nplatform: laptop\nplan: {algorithm: balanced, stages: [1, 2], microbatches: 2}\n' >e.yml
    "$foreline" sweep e.yml >../out 2>&1 || fail "sweep: $(cat ../out)"
    cp e.db good.db
    strange() { # strange WHAT SQL
        cp good.db e.db && sqlite3 e.db "$2" || fail "sqlite3 $2"
        for command in "report e.db -o r.html" "plot throughput e.db --x stages -o b.svg" "sweep e.yml"; do
            # shellcheck disable=SC2086 # words
            timeout 10 "$foreline" $command >../out 2>&1 && fail "$command with a $1: accepted"
            grep -q "e.db.*written.*$1" ../out || fail "$command with a $1: $(cat ../out)"
        done
    }
    strange "view 'result'" 'ALTER TABLE result RENAME TO r; CREATE VIEW result AS
        WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT r.* FROM r, c;'
    strange "trigger 't'" "CREATE TRIGGER t AFTER INSERT ON point BEGIN DELETE FROM result; END;"
    strange "virtual table 'parameter'" "DROP TABLE parameter; CREATE VIRTUAL TABLE parameter USING fts4(hash, name, value);"
    cp good.db e.db
    sqlite3 e.db "CREATE VIEW mine AS SELECT * FROM result; CREATE INDEX i ON result(iteration_s)"
    "$foreline" sweep e.yml >../out 2>&1 || fail "a view and an index of the user's: $(cat ../out)"
    echo mine | tee mine >e.db-lock
    "$foreline" sweep e.yml >../out 2>&1 || fail "a file where the lock is: $(cat ../out)"
    [ "$(cat e.db-lock)" = mine ] || fail "the user's e.db-lock is gone"
    ln -sf mine e.db-lock
    "$foreline" sweep e.yml >../out 2>&1 && fail "a link where the lock is: accepted"
    [ "$(cat mine)" = mine ] || fail "the file behind a link was changed"
    rm e.db-lock
    cd ..
else
    echo "no databases of strangers: sqlite3 is not installed"
fi

# Names on the terminal: in messages and in tables; JSON keeps them.
evil=$(printf 'e\033]0;title\007\302\233mvil')
"$foreline" topology show "$evil" >out 2>&1 && fail "shows $evil"
shows_no_escape out "an error"
"$foreline" model show mlp --json | sed 's/"h1.linear"/"\\u001b[31mh1"/' >evil.json
"$foreline" plan --model evil.json --platform laptop --algorithm balanced --stages 2 -o evil.plan.json \
    >out 2>&1 || fail "plan: $(cat out)"
shows_no_escape out "a plan"
grep -q '\[31mh1' out || fail "the name is not there: $(cat out)"
"$foreline" model show evil.json --json >out 2>&1 || fail "show: $(cat out)"
grep -qi '\\u001b\[31mh1' out || fail "JSON changes the name: $(cat out)"
"$foreline" simulate evil.plan.json >out 2>&1 || fail "simulate: $(cat out)"
shows_no_escape out "a simulation"

# A table of errors is no throughput.
mkdir tables
printf 'plan\tengine\tpredicted_s\tmeasured_s\na\ttcp\t1\t2\nb\ttcp\t2\t2\n' >tables/errors.tsv
"$foreline" report tables -o report.html >out 2>&1 || fail "report: $(cat out)"
! grep -q 'Throughput\|Behind the best' report.html || fail "a table of errors is drawn as throughput"

# No cell of a table is a formula.
cp evil.plan.json =1.json
"$foreline" simulate =1.json --engine analytic -o =a.json >out 2>&1 || fail "simulate: $(cat out)"
"$foreline" run =1.json --compute paced --steps 1 --warmup 0 -o =b.json >out 2>&1 || fail "run: $(cat out)"
"$foreline" compare =a.json =b.json >out 2>&1 || fail "compare: $(cat out)"
grep -q "^'=1.json" out || fail "compare: a formula: $(cat out)"

# What is read is not replaced by what is made of it.
cp evil.plan.json before.json
for command in simulate run 'plan import'; do
    "$foreline" $command evil.plan.json -o ./evil.plan.json >out 2>&1 && fail "$command replaces its input"
    grep -q 'overwrite.*input' out || fail "$command: $(cat out)"
    cmp evil.plan.json before.json || fail "$command replaces its input"
done
echo text >a.txt && cp a.txt x.0
"$foreline" topology generate node:gpus=2,type=A100 -o q.xml >out 2>&1 || fail "generate: $(cat out)"
[ -s evil.json ] && "$foreline" plan --model evil.json --platform q.xml --algorithm balanced --stages 2 -o q.plan.json \
    >out 2>&1 || fail "plan: $(cat out)"
mkdir before && cp evil.plan.json evil.json a.txt x.0 q.xml before
while read -r command; do
    # shellcheck disable=SC2086 # words
    "$foreline" $command >out 2>&1 && fail "$command: replaces its input"
    grep -q 'overwrite.*input\|would.*write' out || fail "$command: $(cat out)"
    (cd before && cmp evil.plan.json ../evil.plan.json && cmp evil.json ../evil.json && cmp a.txt ../a.txt &&
        cmp x.0 ../x.0 && cmp q.xml ../q.xml) || fail "$command: replaces its input"
done <<'END'
run evil.plan.json --trace evil.plan.json
run evil.plan.json --batch-tokens ./evil.plan.json
run evil.plan.json --text a.txt -o a.txt
run x.0 --log x
simulate evil.plan.json --trace evil.plan.json
simulate evil.plan.json --export goal=evil.plan.json
simulate evil.plan.json -o o.json --trace o.json
emulate evil.plan.json --engine smpi --trace evil.plan.json
plan --model evil.json --platform q.xml --algorithm balanced --stages 2 -o q.xml
plan --model evil.json --platform laptop --algorithm balanced --stages 2 -o evil.json
topology show q.xml --matrix q.xml
topology show q.xml:nics=2 --matrix q.xml
simulate evil.plan.json -o evil.json
simulate q.plan.json -o q.xml
simulate q.plan.json --trace q.xml
simulate q.plan.json --export goal=q.xml
run evil.plan.json -o evil.json
run evil.plan.json --trace ./evil.json
emulate q.plan.json -o q.xml
plan import q.plan.json -o q.xml
plan export q.plan.json -o q.xml
measurement import x.csv --plan q.plan.json -o q.xml
model profile evil.json --graph evil.json
model import evil.json -o evil.json
END
[ -z "$(ls -A tmp)" ] || fail "left behind: $(ls -A tmp)"
echo done
