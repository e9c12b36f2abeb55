#!/bin/sh
# A page about a directory: the fastest plan comes first, one file of each plan is shown, and steps that differ by
# more than plans leave it open which is the fastest. Usage: report_directory.sh FORELINE
set -u
foreline=$1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
command -v gnuplot >/dev/null || { echo "skipped: gnuplot is not installed"; exit 77; }

fail() {
    echo "$*"
    exit 1
}

mkdir out
for plan in alpha beta gamma; do # 1, 2 and 4 stages
    stages=$((${stages:-0} == 0 ? 1 : stages * 2))
    "$foreline" plan --model gpt-tiny --platform laptop --algorithm balanced --stages $stages --microbatches 4 \
        -o $plan.json >/dev/null 2>&1 || fail "plan $plan"
    for engine in analytic simgrid; do
        "$foreline" simulate $plan.json --engine $engine -o out/$plan.$engine.json --trace out/$plan.$engine.trace.json \
            >/dev/null 2>&1 || fail "simulate $plan"
    done
done
[ "$("$foreline" report out)" = out/report.html ] || fail "report does not name its page"
captions() {
    grep -o '<figcaption>[^<]*' out/report.html | sed 's/<figcaption>//' | tr '\n' ';'
}
rates=$(for plan in alpha beta gamma; do
    echo "$(sed -n 's/^ *"samples_per_s": \([0-9.e+]*\),*$/\1/p' out/$plan.analytic.json) $plan"
done | sort -gr | cut -d ' ' -f 2 | tr '\n' ' ')
# shellcheck disable=SC2086
set -- $rates
expected=$(for plan in "$@"; do printf 'Memory: out/%s.analytic.json;' "$plan"; done)
captions | grep -qF "$expected" ||
    fail "$rates: $(captions)"
grep -o '>[A-D]: [^<]*' out/report.html | tr '\n' ' ' |
    grep -q "A: out/$1.analytic.trace.json >B: out/$2.analytic.trace.json >C: out/$3.analytic.trace.json" || fail "timelines"
grep -q 'not decided' out/report.html && fail "predictions are not noisy"

# Runs come before predictions. Of the two, the first leads by 10 %; steps of 0.9 to 1.3 s are further apart.
ran() { # ran PLAN SECONDS STEPS
    sed -e 's/"engine": "analytic"/"engine": "tcp"/' -e "s/\"iteration_s\": [0-9.e-]*/\"iteration_s\": $2/" \
        -e "s/\"samples_per_s\": [0-9.e+]*/\"samples_per_s\": $(awk "BEGIN { print 4 / $2 }")/" \
        -e 's/"warnings": \[\]/"warnings": ["the machine was not idle: other processes used 60 % of its CPUs"]/' \
        out/$1.analytic.json | tr '\n' ' ' | sed "s/\"iterations_s\": \[[^]]*\]/\"iterations_s\": [$3]/" >out/$1.tcp.json
}
ran gamma 1.0 '1.0, 1.0, 1.1'
ran beta 1.1 '0.9, 1.1, 1.3'
"$foreline" report out >/dev/null || fail "report with runs"
for text in 'Of 3 plans the fastest is gamma on 4 GPUs, 1 s an iteration' 'not decided: it leads by 10 % (beta is the second)' \
    'up to 36.4 % apart. While it ran, the machine was not idle' 'Memory: out/gamma.tcp.json' \
    'The best per GPU is beta (2 GPUs): ' \
    'from 900 ms to 1.3 s' 'Memory: out/alpha'; do
    grep -q "$text" out/report.html || fail "the page does not say '$text': $(grep 'class="answer"' out/report.html)"
done
grep -q 'Memory: out/gamma.analytic.json' out/report.html && fail "two files of one plan"
grep -q '1T tokens' out/report.html && fail "nobody asked for tokens"
# One price of a GPU-hour: who is the best per GPU costs least.
"$foreline" report out --tokens 1T --price 2.5 >/dev/null || fail "report with tokens"
grep -q 'The best per GPU, and at 2.5 per GPU-hour the cheapest to 1T tokens, is beta (2 GPUs)' out/report.html ||
    fail "the cheapest: $(grep 'class="answer"' out/report.html)"
sed -n 's/.*is beta (2 GPUs): \([0-9,]*\) tokens.s per GPU, \([0-9.]*\) days at a cost of \([0-9,]*\) .*/\1 \2 \3/p' out/report.html |
    tr -d , | awk '{ n++; days = 1e12 / $1 / 2 / 86400; if ($2 / days < 0.999 || $2 / days > 1.001 ||
        $3 / (days * 24 * 2 * 2.5) < 0.999 || $3 / (days * 24 * 2 * 2.5) > 1.001) exit 1 } END { if (n != 1) exit 1 }' ||
    fail "days and money: $(grep 'class="answer"' out/report.html)"
ran beta 1.1 '1.09, 1.1, 1.11'
ran gamma 1.0 '1.0, 1.0, 1.01'
"$foreline" report out >/dev/null || fail "report of quiet runs"
grep -q 'not decided' out/report.html && fail "steps differ by less than plans"
# Names are no markup and no end of a script; the same folder gives the same bytes, whoever reported it before.
evil='<img src=x onerror=alert(1)> &"'"'"'é'
mkdir "$evil" && cp out/gamma.analytic.json "$evil/<script>.json"
cp out/gamma.analytic.trace.json "$evil/$evil.json"
printf 'plan\titeration_s\n%s\t1\n</script><script>alert(1)\t2\n' "$evil" >"$evil/t.tsv"
"$foreline" report "$evil" >/dev/null || fail "hostile names"
cp "$evil/report.html" first.html
"$foreline" report "$evil" >/dev/null && cmp first.html "$evil/report.html" || fail "the same folder has other bytes"
grep -q '<img\|<script>alert' first.html && fail "a name is markup"
[ "$(grep -o '<script[ >]' first.html | wc -l)" = "$(grep -o '</script>' first.html | wc -l)" ] || fail "a name ends a script"
grep -q "Content-Security-Policy.*default-src 'none'" first.html || fail "no policy"
mkdir one && cp out/alpha.simgrid.json one
"$foreline" report one >/dev/null && grep -q 'There is 1 plan: alpha' one/report.html || fail "one measurement"
exit 0
