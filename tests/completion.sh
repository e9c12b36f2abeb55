#!/bin/sh
# Completion in the shells themselves: what each offers at the end of a line. Every command, and every option
# that its man page has, is offered by each; values, names and files where they belong. A shell that is not
# installed is a skip. Usage: completion.sh FORELINE
set -u
foreline=$1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
PATH=${foreline%/*}:$PATH
mkdir results && touch plan.json results/a.json
failed=0 skipped=''

# in_SHELL: lines on standard input, on standard output for each what is offered, on one line, sorted.
in_bash() {
    "$foreline" completion bash >c.bash || return 1
    bash --norc -c '. ./c.bash
        while IFS= read -r COMP_LINE; do
            COMP_POINT=${#COMP_LINE}
            _foreline
            printf "%s\n" "${COMPREPLY[@]}" | sort -u | paste -sd" "
        done'
}
in_fish() {
    "$foreline" completion fish >c.fish || return 1
    HOME=$dir fish --no-config -c '. ./c.fish
        while read -l line
            complete -C $line | cut -f 1 | sort -u | paste -sd" "
        end'
}
# zsh completes in its line editor only: one in a pseudo-terminal, where compadd says what it was given
in_zsh() {
    mkdir -p functions && "$foreline" completion zsh >functions/_foreline || return 1
    cat >rc <<'END'
fpath=($PWD/functions $fpath)
autoload -Uz compinit && compinit -u -D
compadd() {
    local -a hits
    builtin compadd -A hits "$@" 2>/dev/null
    [[ " $*" == *" -[AOD] "* ]] || print -rl -- $hits >>hits
    builtin compadd "$@"
}
say() { sort -u hits | paste -sd' ' >>said; : >hits; BUFFER= CURSOR=0; }
complete_line() { zle expand-or-complete-word; }
zle -C offer list-choices _main_complete
offer_all() { : >hits; while IFS= read -r line; do BUFFER=$line CURSOR=${#line}; zle offer; say; done <lines; print -r done >said.done; }
zle -N offer_all && bindkey '^X^A' offer_all
END
    cat >lines
    rm -f said said.done
    : >said
    cat >drive <<'END'
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'PS1=; . ./rc; stty -echo; print ready >up'
repeat 100; do [[ -e up ]] && break; sleep 0.1; done
zpty -w -n z $'\C-x\C-a'
# What it prints has to be read, or it waits.
repeat 300; do [[ -e said.done ]] && break; while zpty -rt z printed; do :; done; sleep 0.1; done
zpty -d z
END
    rm -f up
    HOME=$dir zsh -f ./drive >zsh.log 2>&1
    cat said
}

fail() {
    echo "$*"
    failed=1
}
: >cases
ask() { # ask LINE|WANTED|UNWANTED
    printf '%s\n' "$1" >>cases
}
commands=$("$foreline" help | awk '/^  [a-z]/ {print $1}')
ask "foreline |$(echo $commands) help --version|plan.json"
for command in $commands; do
    options=$("$foreline" manual "$command" | sed -n 's/^\\fB\\-\\-\([a-z0-9\\-]*\)\\fR.*/--\1/p' | tr -d '\\')
    [ -n "$options" ] || [ "$command" = completion ] || [ "$command" = lab ] || fail "$command has no options"
    ask "foreline $command --|$(echo $options) --help|plan.json"
done
ask "foreline pl|plan plot|model"
ask "foreline model |list show import profile|plan.json --json"
ask "foreline model show gpt2-|gpt2-small gpt2-xl|gpt-tiny"
ask "foreline model show --json llama3-8|llama3-8b|gpt2-small"
ask "foreline topology draw two|two-racks|laptop"
ask "foreline topology generate ra|rail: rail-16k|two-racks"
ask "foreline plan --model gpt-t|gpt-tiny|mlp"
ask "foreline plan --stages 4 --schedule z|zb-v|gpipe"
ask "foreline plan --sequence-parallel ex|export|import"
ask "foreline plan --platform dgx-h100-x|dgx-h100-x4|dgx-a100-x2"
ask "foreline plan --algorithm bal|balanced|auto"
ask "foreline plan --optimizer |adam sgd|plan.json"
ask "foreline plan --zero |0 1 2 3|plan.json"
ask "foreline plan --stages |\
|plan.json 4"
ask "foreline simulate pl|plan.json|plan"
ask "foreline simulate plan.json --engine |analytic simgrid|plan.json"
ask "foreline run plan.json --transport |tcp mpi local nccl|plan.json"
ask "foreline compare plan.json pla|plan.json|plan"
ask "foreline plot ti|timeline|plan.json"
ask "foreline calibrate -o pl|plan.json|plan"
ask "foreline explore pl|plan.json|plan"
ask "foreline lab |scoreboard kernels|plan.json"
ask "foreline lab scoreboard --|--cross-validate --layers --fit --help|plan.json"
ask "foreline lab kernels --gpu H10|H100|plan.json"
ask "foreline completion |bash zsh fish|plan.json"
cut -d'|' -f1 cases >lines.all

for shell in bash zsh fish; do
    command -v $shell >/dev/null || { skipped="$skipped $shell" && continue; }
    in_$shell <lines.all >offered 2>errors || fail "$shell: $(cat errors)"
    [ -s errors ] && fail "$shell says: $(head -n 3 errors)"
    [ "$(wc -l <offered)" = "$(wc -l <lines.all)" ] || fail "$shell answered $(wc -l <offered) of $(wc -l <lines.all) lines"
    i=0
    while IFS='|' read -r line wanted unwanted; do
        i=$((i + 1))
        words=" $(sed -n ${i}p offered) "
        for word in $wanted; do
            case $words in *" $word "*) ;; *) fail "$shell: '$line' does not offer '$word' but:$words" ;; esac
        done
        for word in $unwanted; do
            case $words in *" $word "*) fail "$shell: '$line' offers '$word':$words" ;; esac
        done
    done <cases
done

# Behind '=' and ':', where bash cuts words, and file names in folders.
if command -v bash >/dev/null; then
    printf '%s\n' 'foreline plan --model=gpt-t' 'foreline topology show dragonfly+:' 'foreline simulate results/' |
        in_bash >offered
    printf '%s\n' gpt-tiny '' results/a.json >wanted
    cmp -s wanted offered || fail "bash: $(paste -sd'|' offered)"
fi
"$foreline" completion tcsh 2>error && fail "tcsh was taken"
grep -q 'known: bash, zsh, fish' error || fail "$(cat error)"
[ $failed = 0 ] || exit 1
[ -z "$skipped" ] || { echo "not installed:$skipped" && exit 77; }
