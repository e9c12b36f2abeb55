/* Words of a statement of a script: blanks, comments, arrays, redirections, Slurm's directives. */
#include <stdio.h>
#include <string.h>

#include "study/frameworks/shell.h"

/* Outside of all branches everything is. */
bool shell_live(const struct shell_script *x)
{
    return x->frames == 0 || x->frame[x->frames - 1].live;
}

/* With the line of the statement. */
enum status shell_wrong(const struct shell_script *x, const char *what)
{
    return error_set(STATUS_PARSE, "%s:%zu: %s", x->shell.keys->path, x->shell.line, what);
}

/* ---- reading */

static void skip_line(struct shell_script *x)
{
    x->at += strcspn(x->at, "\n");
}

/* "#SBATCH --nodes=8": a key "sbatch.nodes", and what Slurm would tell the script. */
static enum status directive(struct shell_script *x)
{
    char name[64], value[128];
    struct shell_words nodes = {0};
    for (const char *at = x->at; *at && *at != '\n' && (at = strpbrk(at, "-\n")) && *at == '-';) {
        at += strspn(at, "-");
        size_t n = strcspn(at, "= \t\n"), v;
        snprintf(name, sizeof name, "sbatch.%.*s", n < 50 ? (int)n : 50, at);
        at += n;
        at += strspn(at, "= \t");
        v = strcspn(at, " \t\r\n");
        if (*at == '-') /* the next option: this one has no value */
            v = 0;
        snprintf(value, sizeof value, "%.*s", v < 120 ? (int)v : 120, at);
        PASS(keys_add(x->shell.keys, name, value, x->shell.line));
        if (!strcmp(name, "sbatch.nodes") || !strcmp(name, "sbatch.N")) {
            PASS(shell_append(&x->shell, &nodes, value, strlen(value)));
            PASS(shell_assign(&x->shell, "SLURM_NNODES", 12, &nodes, false, false));
            PASS(shell_assign(&x->shell, "SLURM_JOB_NUM_NODES", 19, &nodes, false, false));
        }
        at += v;
    }
    return STATUS_OK;
}

/* Blanks, continued lines and comments before a word; not the end of a line. */
enum status shell_skip_blanks(struct shell_script *x)
{
    for (;;) {
        x->at += strspn(x->at, " \t\r");
        if (x->at[0] == '\\' && (x->at[1] == '\n' || (x->at[1] == '\r' && x->at[2] == '\n'))) {
            x->at += x->at[1] == '\n' ? 2 : 3;
            x->shell.line++;
        } else if (x->at[0] == '#') {
            if (!strncmp(x->at, "#SBATCH", 7))
                PASS(directive(x));
            skip_line(x);
        } else {
            return STATUS_OK;
        }
    }
}

/* Counts the lines that a quoted word goes over. */
enum status shell_read_word(struct shell_script *x, struct shell_raw *out)
{
    const char *end;
    PASS(shell_word_end(&x->shell, x->at, &end));
    *out = (struct shell_raw){x->at, (size_t)(end - x->at)};
    for (; x->at < end; x->at++)
        x->shell.line += *x->at == '\n';
    return STATUS_OK;
}

/* Lines up to one that is the word alone. */
void shell_skip_heredoc(struct shell_script *x, const struct shell_raw *word)
{
    char mark[64];
    size_t n = 0;
    for (size_t i = 0; i < word->length && n + 1 < sizeof mark; i++)
        if (!strchr("'\"\\", word->text[i]))
            mark[n++] = word->text[i];
    mark[n] = '\0';
    skip_line(x);
    while (*x->at) {
        x->at++;
        x->shell.line++;
        const char *line = x->at + strspn(x->at, "\t");
        skip_line(x);
        if (n > 0 && (size_t)(x->at - line) == n && !memcmp(line, mark, n))
            return;
    }
}

/* < > >> 2>&1 &> << with what follows. */
enum status shell_skip_redirection(struct shell_script *x, struct shell_raw *heredoc)
{
    struct shell_raw word;
    bool here = !strncmp(x->at, "<<", 2) && x->at[2] != '<';
    x->at += strspn(x->at, "<>&|-");
    PASS(shell_skip_blanks(x));
    PASS(shell_read_word(x, &word));
    if (here)
        *heredoc = word;
    return STATUS_OK;
}

/* NAME=( ... ) and NAME+=( ... ), whose name is `raw`. */
enum status shell_read_array(struct shell_script *x, const struct shell_raw *raw)
{
    struct shell_words items = {0};
    size_t name = raw->length - 1;
    bool append = name > 0 && raw->text[name - 1] == '+';
    x->at++;
    for (;;) {
        struct shell_raw word;
        PASS(shell_skip_blanks(x));
        if (*x->at == '\n') {
            x->shell.line++;
            x->at++;
        } else if (*x->at == ')') {
            break;
        } else if (!*x->at) {
            return shell_wrong(x, "array is not closed");
        } else if (strchr(";&|<>(", *x->at)) {
            x->at++;
        } else {
            PASS(shell_read_word(x, &word));
            if (shell_live(x))
                PASS(shell_expand(&x->shell, word.text, word.length, &items));
        }
    }
    x->at++;
    return shell_live(x) ? shell_assign(&x->shell, raw->text, name - append, &items, true, append)
                         : STATUS_OK;
}
