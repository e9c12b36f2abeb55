/* Captures on platforms, and captures of experiments: python/capture.py runs once for each command,
 * into captures/HASH in this folder. */
#define _GNU_SOURCE /* flock */
#include "study/captured.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/base/limit.h"
#include "core/base/text.h"
#include "host/tool.h"
#include "study/script.h"

/* ---- a capture on a platform */

/* The type of most of its FLOP. */
static enum data_type captured_type(const struct capture *c)
{
    double flop[DATA_TYPES] = {0};
    size_t most = 0;
    for (size_t k = 0; k < c->classes; k++)
        for (size_t i = 0; i < c->class[k].operators; i++)
            flop[c->class[k].operation[i].type] += c->class[k].operation[i].flop;
    for (size_t k = 1; k < DATA_TYPES; k++)
        most = flop[k] > flop[most] ? k : most;
    return (enum data_type)most;
}

enum status captured_load(const char *folder, const struct arguments *a, const struct topology *t,
                          struct captured *out, struct program *program)
{
    const char *how = a->capture.operators;
    struct captured_options o = {
        .model = !strcmp(how, "model"), .dry = !strcmp(how, "dry"), .serial = a->capture.serial};
    PASS(capture_read(folder, &out->capture));
    if (!o.model && !o.dry && strcmp(how, "trace") != 0) {
        PASS(operator_times_read(how, &out->times));
        o.times = &out->times;
    }
    PASS(capture_lower(&out->capture, t, &o, program, &out->tally, &out->map));
    out->model.dtype = captured_type(&out->capture);
    return STATUS_OK;
}

void captured_free(struct captured *c)
{
    operator_times_free(&c->times);
    captured_map_free(&c->map);
    capture_free(&c->capture);
    *c = (struct captured){0};
}

enum status captured_is_no_plan(const char *path)
{
    return !capture_is(path)
               ? STATUS_OK
               : error_set(STATUS_INVALID,
                           "%s: is a captured script, expected a plan. Try foreline simulate %s "
                           "--platform P; to run the script: foreline validate --ranks N -- "
                           "python3 SCRIPT",
                           path, path);
}

/* ---- captures that an experiment asks for */

enum { CAPTURED_WORDS = 256 };
static const char captured_cache[] = "captures";

bool captured_asked(const struct arguments *a)
{
    return a->capture.script || a->capture.folder;
}

/* Words of the script, which are between blanks; `text` is cut at them. */
static enum status split_script(char *text, char *word[CAPTURED_WORDS], size_t *n)
{
    char *rest = text;
    *n = 0;
    for (char *at; (at = strtok_r(rest, " ", &rest));) {
        if (*n == CAPTURED_WORDS)
            return error_set(STATUS_USAGE, "capture.script has more than %d words", CAPTURED_WORDS);
        word[(*n)++] = at;
    }
    return *n > 0 ? STATUS_OK : error_set(STATUS_USAGE, "capture.script is empty");
}

/* The file of a word, if it is one. */
static enum status put_word(const char *word, FILE *to)
{
    char hex[DIGEST_HEX];
    struct stat s;
    if (stat(word, &s) != 0 || !S_ISREG(s.st_mode))
        return STATUS_OK;
    PASS(digest_file(word, hex));
    fprintf(to, "file %s\n", hex);
    return STATUS_OK;
}

enum status captured_put_identity(const struct arguments *a, FILE *to)
{
    const struct capture_arguments *c = &a->capture;
    char *word[CAPTURED_WORDS];
    char *copy = NULL, path[CAPTURED_FOLDER];
    size_t n = 0;
    if (!c->script) {
        snprintf(path, sizeof path, "%s/capture.json", c->folder);
        return put_word(path, to);
    }
    enum status st;
    TRY(text_copy(c->script, &copy));
    fprintf(to, "capture %s\n%zu %zu %zu %s %s %d %d\n", c->script, c->world_size, c->steps,
            c->node, c->ranks ? c->ranks : "", c->device, c->real, c->dry);
    TRY(split_script(copy, word, &n));
    for (size_t i = 0; i < n; i++)
        TRY(put_word(word[i], to));
out:
    free(copy);
    return st;
}

/* The last line that it prints is the reason when it fails. */
static enum status run_script(const struct script_call *c)
{
    enum { MOST = 1 << 16 };
    const struct tool t = {/* each rank has a limit of its own in capture.py */
                           .words = c->word,
                           .input = -1,
                           .output = -1,
                           .errors = -1,
                           .within_s = limit_wait(86400)};
    char *text = NULL;
    size_t length;
    int code;
    bool cut;
    PASS(tool_text(&t, MOST, &code, &text, &length, &cut));
    while (length > 0 && text[length - 1] == '\n')
        text[--length] = '\0';
    const char *line = strrchr(text, '\n');
    enum status st = code == 0
                         ? STATUS_OK
                         : error_set(STATUS_UNSUPPORTED, "the script cannot be captured: %.200s",
                                     line ? line + 1 : text);
    free(text);
    return st;
}

static enum status captured_make(const struct capture_arguments *a, const char *into)
{
    enum status st;
    struct script_call c = {0};
    char *copy = NULL, *word[CAPTURED_WORDS];
    size_t n = 0;
    TRY(script_begin("capture.py", &c));
    script_put_capture(&c, a, into);
    script_put(&c, "--errors-here", NULL); /* among what it prints */
    TRY(text_copy(a->script, &copy));
    TRY(split_script(copy, word, &n));
    TRY(script_end(&c, word, n));
    TRY(run_script(&c));
out:
    free(copy);
    return st;
}

/* Workers that want the same capture wait for the one that makes it, which renames it when it is
 * whole. */
static enum status captured_make_once(const struct capture_arguments *a, const char *folder)
{
    enum status st = STATUS_OK;
    char lock[CAPTURED_FOLDER + 8], made[CAPTURED_FOLDER + 8];
    snprintf(lock, sizeof lock, "%s.lock", folder);
    snprintf(made, sizeof made, "%s.tmp", folder);
    int fd = open(lock, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0 || flock(fd, LOCK_EX) != 0)
        st = error_set(STATUS_IO, "%s: %s", lock, strerror(errno));
    else if (!capture_is(folder)) {
        st = captured_make(a, made);
        if (st == STATUS_OK && rename(made, folder) != 0)
            st = error_set(STATUS_IO, "%s: %s", folder, strerror(errno));
    }
    if (fd >= 0)
        close(fd);
    return st;
}

enum status captured_find(const struct arguments *a, char folder[CAPTURED_FOLDER])
{
    enum status st;
    struct file_text t;
    char hash[DIGEST_HEX];
    if (!a->capture.script) {
        snprintf(folder, CAPTURED_FOLDER, "%s", a->capture.folder);
        return STATUS_OK;
    }
    TRY(file_text_open(&t));
    TRY(file_text_close(&t, captured_put_identity(a, t.stream)));
    digest_hex(t.text, t.length, hash);
    snprintf(folder, CAPTURED_FOLDER, "%s/%.16s", captured_cache, hash);
    if (mkdir(captured_cache, 0777) != 0 && errno != EEXIST)
        FAIL(STATUS_IO, "%s: %s", captured_cache, strerror(errno));
    if (!capture_is(folder))
        TRY(captured_make_once(&a->capture, folder));
out:
    free(t.text);
    return st;
}
