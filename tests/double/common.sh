# What the double's tests share; to be sourced with $bin set to the folder of foreline and
# foreline-worker-double. Works in a folder of its own, which goes away.
double=${DOUBLE_WORKER:-$bin/foreline-worker-double}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tmp"
cd "$work"
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR FORELINE_WORKER DOUBLE_SEED DOUBLE_FAULTS DOUBLE_LOG DOUBLE_RACES
export OPENBLAS_NUM_THREADS=1 TMPDIR="$work/tmp"

plan() { # plan OPTIONS...: p.json of a small GPT ($dtype, $microbatches), or of $model; 1: no such plan
    "$bin/foreline" plan --algorithm balanced --platform "${platform:-laptop}" --microbatches "${microbatches:-4}" \
        --model "${model:-gpt-tiny:layers=2,hidden=32,heads=4,tokens=${tokens:-32},dtype=${dtype:-fp32}}" "$@" -o p.json \
        >plan.out 2>&1
}
run() { # run DEVICE TRANSPORT OPTIONS...: m.json, err; the status of foreline run, or of timeout
    on=$1 over=$2
    shift 2
    worker=$double
    [ "$on" = cpu ] && worker=$bin/foreline-worker
    rm -f m.json log.*
    DOUBLE_LOG=$work/log FORELINE_WORKER=$worker timeout "${patience:-20}" "$bin/foreline" run p.json \
        --device "$on" --transport "$over" --steps "${steps:-3}" --warmup 0 --timeout "${silence:-4s}" \
        "$@" -o m.json >out 2>err
}
hash_of() { # of the parameters in m.json
    sed -n 's/.*"parameters_sha256": "\([0-9a-f]*\)".*/\1/p' m.json
}
losses() { # of m.json, one a line
    tr -d ' \n' <m.json | sed 's/.*"loss":\[\([^]]*\)\].*/\1/' | tr ',' '\n'
}
why() { # one line of what went wrong
    { grep -h 'double:' err || tail -n 1 err; } 2>/dev/null | sort -u | head -n 2 | tr '\n' ' ' | cut -c 1-300
}
