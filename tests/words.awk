# What a test compares of a text: everything but its prose, so that rewording a message breaks no test.
# Of a line stay the first words up to a colon (where: "foreline plan:", "x.xml:3:"), options, what is
# quoted, names (with a capital, digit, dot, slash or underscore in them), numbers with their units,
# and a cell of a table that is one word; "..." stands for a line of which nothing stays. The label
# of "label  value" goes. XML stays as it is; so does JSON but for texts in it, which are treated the
# same, fractions beyond six digits, long lists of names, who wrote it, what error is expected by the runs of others,
# and the processor's time.
#
# awk -f words.awk TEXT                  prints that
# awk -v golden=FILE -f words.awk TEXT   prints each line of FILE that says the same, else that. Lines
#   say the same if all that stays is in the golden line, and all words of it are in the text, in
#   order: words of prose may be added to a golden line by hand, and are compared then.
#   With -v all=1 no line of FILE is passed over: TEXT has them all, and others between them.
function prose(word) { return word ~ /^[a-z][-a-z']*$/ || word !~ /[A-Za-z0-9%]/ }

function bare(word) {
    sub(/^[(\[]+/, "", word)
    sub(/[],;:.!?)]+$/, "", word)
    return word
}

function words(text,    n, i, w, token, out, quote, number, lead) {
    n = split(text, token, / +/)
    lead = 0
    for (i = 1; i <= 3 && i <= n && !lead; i++)
        if (token[i] ~ /^[^(].*:$/) lead = token[1] == "foreline" || i == 1 ? i : 0
    out = quote = ""
    number = 0
    for (i = 1; i <= n; i++) {
        w = token[i]
        if (quote == "" && match(w, /^[(=\[]*['"]/)) quote = substr(w, RLENGTH, 1)
        if (i <= lead) { out = out " " w; quote = ""; continue }
        w = bare(w)
        if (quote != "") {
            out = out " " w
            if (w ~ quote "$" && (length(w) > 1)) quote = ""
            number = 0
            continue
        }
        if (!prose(w) || (number && w ~ /^(s|ms|us|ns|min|h|bytes)$/)) out = out " " w
        number = w ~ /^[-+]?[0-9.]+(e[-+]?[0-9]+)?$/
    }
    return substr(out, 2)
}

function cells(line,    n, i, cell, out, part) {
    sub(/^[ \t]+/, "", line)
    n = split(line, cell, /  +|\t+/)
    out = ""
    for (i = 1; i <= n; i++) {
        part = cell[i] ~ / / ? words(cell[i]) : cell[i]
        if (n == 2 && i == 1 && prose(part) && words(cell[2]) != "") continue # a label
        if (part != "") out = out " " part
    }
    return out == "" && line != "" ? "..." : substr(out, 2)
}

function json(line,    out, text) {
    out = ""
    sub(/"provenance": [{][^}]*[}],? */, "", line)
    gsub(/"expected_error": ([{][^}]*[}]|null),? */, "", line)
    gsub(/"(cpu_s|wall_s|ops_per_s|rss_bytes|plan_sha256)": [^,}]*,? */, "", line)
    while (match(line, /(, "[^"]*")(, "[^"]*")(, "[^"]*")(, "[^"]*")(, "[^"]*")(, "[^"]*")+, /)) {
        text = substr(line, RSTART, RLENGTH)
        line = substr(line, 1, RSTART - 1) ", ...(" gsub(/", "/, "&", text) + 1 "), " substr(line, RSTART + RLENGTH)
    }
    while (match(line, /"([^"\\]|\\.)*"|[0-9]+\.[0-9]+(e[-+]?[0-9]+)?|[0-9]+e-[0-9]+/)) {
        text = substr(line, RSTART, RLENGTH)
        out = out substr(line, 1, RSTART - 1)
        line = substr(line, RSTART + RLENGTH)
        if (text !~ /^"/) text = sprintf("%.6g", text)
        else if (text ~ / /) text = "\"" words(substr(text, 2, length(text) - 2)) "\""
        out = out text
    }
    return out line
}

function reduced(line) {
    if (line ~ /^ *<.*>$/) return line
    if (line ~ /^ *("[A-Za-z0-9_ ]*": |[]\[{}]|"([^"\\]|\\.)*",?$)/) return json(line)
    return cells(line)
}

# All words of the first in the second, in order.
function within(first, second,    a, b, n, m, i, j) {
    n = split(first, a, /[ \t]+/)
    m = split(second, b, /[ \t]+/)
    for (i = j = 1; i <= n && j <= m; j++)
        if (bare(a[i]) == bare(b[j])) i++
    return i > n
}

function same(expected, line, short) {
    if (expected == short) return 1
    sub(/^\.\.\.$/, "", short)
    sub(/^[ \t]+/, "", line)
    return expected != "..." && within(short, expected) && within(expected, line)
}

BEGIN {
    if (golden != "")
        while ((getline line < golden) > 0) expected[++lines] = line
    at = 1
}

{
    short = reduced($0)
    if (short ~ /^ *$/ && $0 ~ /[^ ]/) next # who wrote it, and the processor's time
    last = all ? at : lines
    for (i = at; i <= last && !same(expected[i], $0, short); i++) { }
    if (i <= last && i <= lines) {
        print expected[i]
        at = i + 1
    } else print short
}
