/* Arguments in shell scripts: statements are followed, not run. Branches are taken as their tests
 * say, loops once, of functions the body where it stands; what a command prints is not known.
 * Arguments are those of the last command with a Python program and an option of training; where
 * there is none (it stands in a variable, or in a script that this one writes) those in all
 * variables. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "study/frameworks/shell.h"

/* ---- commands */

static bool shell_is_word(const struct shell_raw *w, const char *word)
{
    return strlen(word) == w->length && !memcmp(w->text, word, w->length);
}

/* The letters of NAME in "NAME=value" or "NAME+=value"; 0: it is none. */
static size_t assigned_name(const struct shell_raw *w)
{
    size_t n = 0;
    while (n < w->length && (isalnum((unsigned char)w->text[n]) || w->text[n] == '_'))
        n++;
    bool plus = n + 1 < w->length && w->text[n] == '+';
    return n > 0 && !isdigit((unsigned char)*w->text) && n + plus < w->length &&
                   w->text[n + plus] == '='
               ? n
               : 0;
}

/* An assignment makes one word, whatever blanks are in the value. */
static enum status shell_assign_key(struct shell_script *x, const struct shell_raw *w, size_t name)
{
    struct shell_words value = {0};
    bool append = w->text[name] == '+';
    const char *text;
    size_t begin = name + 1 + append;
    PASS(shell_join(&x->shell, w->text + begin, w->length - begin, &text));
    PASS(shell_append(&x->shell, &value, text, strlen(text)));
    return shell_assign(&x->shell, w->text, name, &value, false, append);
}

/* A word of several, such as the text of bash -c, as words. */
static enum status shell_split(struct shell_script *x, const char *text, struct shell_words *out)
{
    while (*(text += strspn(text, " \t\r\n"))) {
        size_t n = strcspn(text, " \t\r\n");
        PASS(shell_append(&x->shell, out, text, n));
        text += n;
    }
    return STATUS_OK;
}

/* Launchers and wrappers differ, what is launched is Python. */
static bool is_program(const char *word)
{
    size_t n = strlen(word);
    return (n > 3 && !strcmp(word + n - 3, ".py")) || !strcmp(word, "torchtitan.train");
}

/* Words that no launcher and no preparing program has. */
static bool is_training(const char *word)
{
    static const char *const options[] = {"--num-layers",
                                          "--micro-batch-size",
                                          "--global-batch-size",
                                          "--tensor-model-parallel-size",
                                          "--pipeline-model-parallel-size",
                                          "--hidden-size",
                                          "--training.",
                                          "--parallelism."};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (!strncmp(word, options[i], strlen(options[i])))
            return true;
    return false;
}

/* Remember the command if it trains. Words with blanks are texts for another shell: bash -c,
 * eval. */
static enum status consider(struct shell_script *x, const struct shell_raw *word, size_t n)
{
    struct shell_words words = {0}, again = {0}, flat = {0};
    bool program = false, training = false;
    for (size_t i = 0; i < n; i++) {
        bool text = i > 0 && shell_is_word(&word[i - 1], "-c"); /* expanded once more */
        again.n = 0;
        PASS(shell_expand(&x->shell, word[i].text, word[i].length, text ? &again : &words));
        for (size_t k = 0; k < again.n; k++)
            PASS(shell_expand(&x->shell, again.word[k], strlen(again.word[k]), &words));
    }
    for (size_t i = 0; i < words.n; i++)
        PASS(shell_split(x, words.word[i], &flat));
    for (size_t i = 0; i < flat.n; i++) {
        program |= is_program(flat.word[i]);
        training |= is_training(flat.word[i]);
    }
    if (program && training) {
        x->command = flat;
        x->command_line = x->shell.line;
    }
    return STATUS_OK;
}

/* Assignments, tests and commands. What stands behind && and || happens as the test before says. */
static enum status simple(struct shell_script *x, const struct shell_raw *w, size_t n)
{
    static const char *const declare[] = {"export", "local", "declare", "readonly", "typeset"};
    enum shell_truth t = SHELL_TRUE;
    bool test = n > 0 && (shell_is_word(&w[0], "[") || shell_is_word(&w[0], "[[") ||
                          shell_is_word(&w[0], "test"));
    bool wanted = !x->joined || x->decided == (x->joined == '&' ? SHELL_TRUE : SHELL_FALSE);
    if (n == 0 || !shell_live(x) || (!wanted && !x->condition))
        return STATUS_OK;
    if (test) {
        bool closed = n > 1 && (shell_is_word(&w[n - 1], "]") || shell_is_word(&w[n - 1], "]]"));
        PASS(shell_test(&x->shell, w + 1, n - 1 - closed, &t));
    } else {
        bool declares = false;
        size_t i = 0, name;
        for (size_t k = 0; k < sizeof declare / sizeof *declare; k++)
            declares |= shell_is_word(&w[0], declare[k]);
        for (i = declares; i < n && (name = assigned_name(&w[i])) > 0; i++)
            PASS(shell_assign_key(x, &w[i], name));
        if (i < n && !declares)
            PASS(consider(x, w + i, n - i));
        t = i < n && x->condition ? SHELL_UNKNOWN : SHELL_TRUE;
    }
    x->decided = shell_with(x->decided, x->joined, t);
    return STATUS_OK;
}

/* ---- what follows what */

static enum status shell_push(struct shell_script *x, struct shell_frame f)
{
    if (x->frames == SHELL_FRAMES)
        return shell_wrong(x, "branches are nested too deeply");
    f.outer = shell_live(x);
    x->frame[x->frames++] = f;
    return STATUS_OK;
}

/* fi, done and esac are not told apart: scripts that a shell takes have them in the right order. */
static enum status pop(struct shell_script *x)
{
    if (x->frames == 0)
        return shell_wrong(x, "end of a branch without its beginning");
    x->frames--;
    x->condition = false;
    return STATUS_OK;
}

/* for NAME in A B: the first one. */
static enum status begin_for(struct shell_script *x, const struct shell_raw *w, size_t n)
{
    struct shell_words items = {0};
    for (size_t i = 3; i < n && shell_live(x); i++)
        PASS(shell_expand(&x->shell, w[i].text, w[i].length, &items));
    items.n = items.n > 0;
    if (n > 1 && items.n > 0)
        PASS(shell_assign(&x->shell, w[1].text, w[1].length, &items, false, false));
    return shell_push(x, (struct shell_frame){.kind = FRAME_LOOP, .live = shell_live(x)});
}

/* Patterns are compared when they come; until then nothing is followed. */
static enum status begin_case(struct shell_script *x, const struct shell_raw *w, size_t n)
{
    struct shell_frame f = {.kind = FRAME_CASE, .pattern = true, .value = ""};
    if (n > 1 && shell_live(x))
        PASS(shell_join(&x->shell, w[1].text, w[1].length, &f.value));
    return shell_push(x, f);
}

/* if, then, elif, else: n is 1 for these, as what follows is a command of its own. */
static enum status branch(struct shell_script *x, const struct shell_raw *w)
{
    struct shell_frame *f = x->frames > 0 ? &x->frame[x->frames - 1] : NULL;
    if (shell_is_word(w, "if")) {
        PASS(shell_push(x, (struct shell_frame){.kind = FRAME_IF, .live = shell_live(x)}));
        x->condition = true;
    } else if (!f || f->kind != FRAME_IF) {
        return shell_wrong(x, "branch without if");
    } else if (shell_is_word(w, "then")) {
        f->live = f->outer && !f->taken && x->decided == SHELL_TRUE;
        f->taken |= f->live;
        x->condition = false;
    } else if (shell_is_word(w, "elif")) {
        f->live = f->outer && !f->taken;
        x->condition = f->live;
    } else {
        f->live = f->outer && !f->taken;
        f->taken = true;
    }
    x->decided = SHELL_FALSE;
    x->joined = '\0';
    return STATUS_OK;
}

/* One statement of n words. Keywords may have a command behind them, which is a statement again. */
static enum status statement(struct shell_script *x, const struct shell_raw *w, size_t n)
{
    static const char *const words[] = {"if", "then", "elif", "else", "do",
                                        "{",  "}",    "!",    "time", "function"};
    enum { BRANCHES = 4, WORDS = sizeof words / sizeof *words };
    for (; n > 0; w++, n--) {
        size_t k = 0;
        while (k < WORDS && !shell_is_word(&w[0], words[k]))
            k++;
        if (k == WORDS)
            break;
        if (k < BRANCHES)
            PASS(branch(x, &w[0]));
    }
    if (n == 0)
        return STATUS_OK;
    if (shell_is_word(&w[0], "fi") || shell_is_word(&w[0], "done") || shell_is_word(&w[0], "esac"))
        return pop(x);
    if (shell_is_word(&w[0], "for"))
        return begin_for(x, w, n);
    if (shell_is_word(&w[0], "while") || shell_is_word(&w[0], "until"))
        return shell_push(x, (struct shell_frame){.kind = FRAME_LOOP, .live = false});
    if (shell_is_word(&w[0], "case"))
        return begin_case(x, w, n);
    return simple(x, w, n);
}

/* "pattern)" of a case. */
static enum status pattern(struct shell_script *x, const struct shell_raw *w, size_t n, bool last)
{
    struct shell_frame *f = &x->frame[x->frames - 1];
    enum shell_truth t = SHELL_FALSE;
    if (f->outer && !f->taken && n > 0) {
        const struct shell_raw words[] = {{f->value, strlen(f->value)}, {"==", 2}, w[n - 1]};
        PASS(shell_test(&x->shell, words, 3, &t));
    }
    f->live |= t == SHELL_TRUE;
    f->taken |= t == SHELL_TRUE;
    f->pattern = !last;
    return STATUS_OK;
}

/* What ends a statement, and what it means for the next one. */
static enum status end_statement(struct shell_script *x, const struct shell_raw *heredoc)
{
    struct shell_frame *f = x->frames > 0 ? &x->frame[x->frames - 1] : NULL;
    char end = *x->at;
    bool twice = end && x->at[1] == end;
    x->joined = twice && (end == '&' || end == '|') ? end : '\0';
    if (end == '\n' && heredoc->text)
        shell_skip_heredoc(x, heredoc);
    else if (end == ';' && twice && f && f->kind == FRAME_CASE) {
        f->live = false;
        f->pattern = true;
    }
    if (end == '\n')
        x->shell.line++;
    if (*x->at)
        x->at += twice && end != '\n' && end != '(' && end != ')' ? 2 : 1;
    return STATUS_OK;
}

/* The words of one statement up to what ends it, and the statement. Between [[ and ]] signs are
 * words. */
static enum status read_statement(struct shell_script *x)
{
    struct shell_raw *w = NULL, heredoc = {0};
    size_t n = 0;
    for (;;) {
        PASS(shell_skip_blanks(x));
        bool inside = n > 0 && shell_is_word(&w[0], "[[") && !shell_is_word(&w[n - 1], "]]");
        inside |= n > 1 && shell_is_word(&w[1], "[[") && !shell_is_word(&w[n - 1], "]]");
        struct shell_raw word = {x->at, 1};
        if (inside && *x->at && strchr("&|()<>", *x->at)) {
            word.length = x->at[1] == x->at[0] ? 2 : 1;
            x->at += word.length;
            if (strchr("()", *word.text))
                continue;
        } else if (*x->at && strchr("<>", *x->at)) {
            PASS(shell_skip_redirection(x, &heredoc));
            continue;
        } else if (*x->at == '&' && x->at[1] == '>') {
            x->at++;
            continue;
        } else if (!*x->at || strchr("\n;&|()", *x->at)) {
            break;
        } else {
            PASS(shell_read_word(x, &word));
            if (*x->at == '(' && word.length > 1 && word.text[word.length - 1] == '=') {
                PASS(shell_read_array(x, &word));
                continue;
            }
            if ((*x->at == '<' || *x->at == '>') && word.length == 1 && isdigit(*word.text))
                continue; /* 2> */
        }
        PASS(keys_charge(x->shell.keys, sizeof word));
        PASS(ARENA_ROOM(&x->shell.keys->memory, w, n));
        w[n++] = word;
    }
    struct shell_frame *f = x->frames > 0 ? &x->frame[x->frames - 1] : NULL;
    bool alternative = *x->at == ')' || (*x->at == '|' && x->at[1] != '|');
    if (f && f->kind == FRAME_CASE && f->pattern && alternative)
        PASS(pattern(x, w, n, *x->at == ')'));
    else
        PASS(statement(x, w, n));
    return end_statement(x, &heredoc);
}

/* ---- arguments */

/* torchtitan's "activation-checkpoint:full", a subcommand: what it chooses; NULL: another word. */
static const char *subcommand(const char *word)
{
    static const char name[] = "activation-checkpoint:";
    return strncmp(word, name, sizeof name - 1) == 0 ? word + sizeof name - 1 : NULL;
}

/* What ends the values of an option: a program, also that of python -m, and a subcommand. */
static bool is_value_end(const char *word)
{
    return is_program(word) || !strcmp(word, "-m") || subcommand(word);
}

/* "--key value value" of words; with a program those before it are the launcher's. */
static enum status shell_emit(struct shell_script *x, const struct shell_words *words)
{
    char value[4096];
    for (size_t i = 0; i < words->n; i++) {
        const char *word = words->word[i];
        if (is_program(word))
            x->shell.keys->program = word;
        if (subcommand(word))
            PASS(keys_add(x->shell.keys, "activation_checkpoint.mode", subcommand(word),
                          x->shell.line));
        if (strncmp(word, "--", 2) != 0 || !isalpha((unsigned char)word[2]))
            continue;
        size_t name = strcspn(word, "="), used = 0, from = i;
        const char *key = arena_text_n(&x->shell.keys->memory, word, name);
        if (!key)
            return STATUS_NOMEM;
        value[0] = '\0';
        while (!word[name] && i + 1 < words->n && strncmp(words->word[i + 1], "--", 2) != 0 &&
               !is_value_end(words->word[i + 1])) {
            int k = snprintf(value + used, sizeof value - used, "%s%s", used ? " " : "",
                             words->word[++i]);
            used += k > 0 && used + (size_t)k < sizeof value ? (size_t)k : 0;
        }
        PASS(keys_add(x->shell.keys, key,
                      word[name] ? word + name + 1
                      : i > from ? value
                                 : NULL,
                      x->shell.line));
    }
    return STATUS_OK;
}

/* In the order of first assignments, so that what is put together later comes later. */
static enum status emit_variables(struct shell_script *x)
{
    for (size_t v = 0; v < x->shell.variables; v++) {
        struct shell_words flat = {0};
        for (size_t i = 0; i < x->shell.variable[v].value.n; i++)
            PASS(shell_split(x, x->shell.variable[v].value.word[i], &flat));
        x->shell.line = x->shell.variable[v].line;
        PASS(shell_emit(x, &flat));
    }
    return STATUS_OK;
}

/* Variables that say how many GPUs there are, for scripts whose launcher is elsewhere:
 * "env.NNODES". */
static enum status emit_sizes(struct shell_script *x)
{
    static const char *const names[] = {"NNODES",          "NUM_NODES",     "GPUS_PER_NODE",
                                        "N_GPUS_PER_NODE", "WORLD_SIZE",    "NUM_GPUS",
                                        "NGPUS",           "NPROC_PER_NODE"};
    char key[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct shell_variable *v = shell_find(&x->shell, names[i], strlen(names[i]));
        if (!v || v->value.n != 1 || strchr(v->value.word[0], KEYS_GAP))
            continue;
        snprintf(key, sizeof key, "env.%s", names[i]);
        PASS(keys_add(x->shell.keys, key, v->value.word[0], v->fixed ? 0 : v->line));
        x->shell.keys->key[x->shell.keys->n - 1].used = true;
    }
    return STATUS_OK;
}

/* Variables that --set gives are fixed before the first statement: assignments leave them alone. */
enum status keys_read_shell(struct keys *k, const char *text, size_t length)
{
    struct shell_script x = {.shell = {.keys = k, .line = 1}, .at = text};
    (void)length;
    for (size_t i = 0; i < k->sets; i++) {
        struct shell_words value = {0};
        size_t name = strcspn(k->set[i], "=");
        PASS(shell_append(&x.shell, &value, k->set[i] + name + 1, strlen(k->set[i] + name + 1)));
        PASS(shell_assign(&x.shell, k->set[i], name, &value, false, false));
        x.shell.variable[x.shell.variables - 1].fixed = true;
    }
    while (*x.at)
        PASS(read_statement(&x));
    PASS(emit_sizes(&x));
    x.shell.line = x.command_line;
    return x.command.n > 0 ? shell_emit(&x, &x.command) : emit_variables(&x);
}
