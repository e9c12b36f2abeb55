/* What every rank of a run must have been told alike: the table of settings. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "exec/agreement.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/digest.h"
#include "core/base/provenance.h"
#include "exec/checkpoint.h"
#include "exec/corpus.h"
#include "exec/learning_rate.h"
#include "exec/rounds.h"

enum { VALUE = 256, NAME = 32, SHORT_HASH = 16, NUMBER = 32 };

/* ---- values */

/* The fewest digits that read back as the same number: 0.01, however it was typed. */
static const char *agreement_print_number(double x, char text[NUMBER])
{
    int digits = 15;
    do
        snprintf(text, NUMBER, "%.*g", digits, x);
    while (strtod(text, NULL) != x && digits++ < 17);
    return text;
}

static void put_hash(const char hex[DIGEST_HEX], char *value)
{
    snprintf(value, VALUE, "sha256:%.*s", SHORT_HASH, hex);
}

static void put_count(uint64_t n, char *value)
{
    snprintf(value, VALUE, "%llu", (unsigned long long)n);
}

static enum status agreement_put_text(const char *text, char *value)
{
    if (snprintf(value, VALUE, "%s", text) >= VALUE)
        return error_set(STATUS_INVALID,
                         "setting '%.60s...' has %zu characters, expected fewer than %d", text,
                         strlen(text), VALUE);
    return STATUS_OK;
}

/* A folder without symbolic links; it need not be there yet. Long ones by their hash. */
static void put_folder(const char *path, char *value)
{
    char real[PATH_MAX], folder[PATH_MAX], hex[DIGEST_HEX];
    const char *name = strrchr(path, '/');
    if (realpath(path, real)) {
        path = real;
    } else if (name) {
        snprintf(folder, sizeof folder, "%.*s", (int)(name > path ? name - path : 1), path);
        if (realpath(folder, real) && strlen(real) + strlen(name) < sizeof real) {
            strcat(real, name);
            path = real;
        }
    }
    if (snprintf(value, VALUE, "%s", path) < VALUE)
        return;
    digest_hex(path, strlen(path), hex);
    snprintf(value, VALUE, "...%s sha256:%.*s", path + strlen(path) - VALUE / 2, SHORT_HASH, hex);
}

/* ---- rows */

static enum status put_version(const struct agreement *a, char *value)
{
    (void)a;
    return agreement_put_text(foreline_version, value);
}

static enum status agreement_put_ranks(const struct agreement *a, char *value)
{
    put_count(a->program->ranks, value);
    return STATUS_OK;
}

static enum status put_stages(const struct agreement *a, char *value)
{
    put_count(a->program->stages, value);
    return STATUS_OK;
}

static enum status put_microbatches(const struct agreement *a, char *value)
{
    put_count(a->program->microbatches, value);
    return STATUS_OK;
}

static enum status put_microbatch_size(const struct agreement *a, char *value)
{
    put_count(a->program->microbatch_size, value);
    return STATUS_OK;
}

static enum status put_seed(const struct agreement *a, char *value)
{
    put_count(a->program->seed, value);
    return STATUS_OK;
}

static enum status put_optimizer(const struct agreement *a, char *value)
{
    return agreement_put_text(a->program->optimizer ? a->program->optimizer : "none", value);
}

static enum status put_schedule(const struct agreement *a, char *value)
{
    return agreement_put_text(a->program->schedule ? a->program->schedule : "none", value);
}

static enum status put_forward_only(const struct agreement *a, char *value)
{
    return agreement_put_text(a->program->forward_only ? "on" : "off", value);
}

static enum status put_dtype(const struct agreement *a, char *value)
{
    const char *name = data_type_names[a->model->dtype];
    return agreement_put_text(*name ? name : "any", value);
}

static enum status put_model(const struct agreement *a, char *value)
{
    char hex[DIGEST_HEX];
    PASS(digest_file(a->model_path, hex));
    snprintf(value, VALUE, "%.100s sha256:%.*s", a->model->name, SHORT_HASH, hex);
    return STATUS_OK;
}

/* All that the rows above do not name: devices, predicted times, ... */
static enum status agreement_put_plan(const struct agreement *a, char *value)
{
    char hex[DIGEST_HEX];
    PASS(digest_file(a->program_path, hex));
    put_hash(hex, value);
    return STATUS_OK;
}

static enum status agreement_put_device(const struct agreement *a, char *value)
{
    return agreement_put_text(strstr(a->device, "cuda") ? "cuda" : "cpu", value);
}

static enum status put_compute(const struct agreement *a, char *value)
{
    return agreement_put_text(!strncmp(a->device, "paced", 5) ? "paced" : "real", value);
}

static enum status put_paced(const struct agreement *a, char *value)
{
    return agreement_put_text(a->paced ? "on" : "off", value);
}

static enum status put_graphs(const struct agreement *a, char *value)
{
    return agreement_put_text(a->graphs ? "on" : "off", value);
}

static enum status put_cudnn(const struct agreement *a, char *value)
{
    return agreement_put_text(a->cudnn ? "on" : "off", value);
}

static enum status put_transport(const struct agreement *a, char *value)
{
    return agreement_put_text(a->transport, value);
}

static enum status agreement_put_collective(const struct agreement *a, char *value)
{
    const struct rounds_algorithm *algorithm;
    PASS(rounds_find(a->collective, a->transport, &algorithm));
    return agreement_put_text(algorithm ? algorithm->name : a->transport, value);
}

static enum status put_learning_rate(const struct agreement *a, char *value)
{
    char text[NUMBER];
    return agreement_put_text(agreement_print_number(a->learning_rate, text), value);
}

static enum status put_policy(const struct agreement *a, char *value)
{
    struct learning_rate r;
    char text[6][NUMBER];
    PASS(learning_rate_parse(a->policy ? a->policy : "constant", &r));
    int n = snprintf(value, VALUE, "%s", learning_rate_name(r.kind));
    if (r.kind != RATE_CONSTANT || r.warmup > 0)
        n += snprintf(value + n, (size_t)(VALUE - n), ":epoch=%s,warmup=%s",
                      agreement_print_number(r.epoch, text[0]),
                      agreement_print_number(r.warmup, text[1]));
    if (r.kind == RATE_STEP)
        n += snprintf(value + n, (size_t)(VALUE - n), ",every=%s",
                      agreement_print_number(r.every, text[2]));
    if (r.kind == RATE_STEP || r.kind == RATE_EXPONENTIAL)
        n += snprintf(value + n, (size_t)(VALUE - n), ",factor=%s",
                      agreement_print_number(r.factor, text[3]));
    if (r.kind == RATE_POLYNOMIAL)
        n += snprintf(value + n, (size_t)(VALUE - n), ",power=%s",
                      agreement_print_number(r.power, text[4]));
    if (r.kind == RATE_POLYNOMIAL || r.kind == RATE_EXPONENTIAL)
        snprintf(value + n, (size_t)(VALUE - n), ",epochs=%s",
                 agreement_print_number(r.epochs, text[5]));
    return STATUS_OK;
}

static enum status put_training_text(const struct agreement *a, char *value)
{
    char hex[DIGEST_HEX];
    const struct corpus *c = a->text ? a->text : corpus_shipped();
    digest_hex(c->text, c->n, hex);
    put_hash(hex, value);
    return STATUS_OK;
}

static enum status put_steps(const struct agreement *a, char *value)
{
    put_count(a->steps, value);
    return STATUS_OK;
}

static enum status put_warmup(const struct agreement *a, char *value)
{
    put_count(a->warmup, value);
    return STATUS_OK;
}

static enum status put_checkpoint(const struct agreement *a, char *value)
{
    if (!a->checkpoint)
        return agreement_put_text("none", value);
    put_folder(a->checkpoint, value);
    return STATUS_OK;
}

static enum status put_checkpoint_every(const struct agreement *a, char *value)
{
    put_count(a->checkpoint ? a->checkpoint_every : 0, value);
    return STATUS_OK;
}

/* The step, and the files of all ranks, whatever the folder is called. */
static enum status put_resume(const struct agreement *a, char *value)
{
    struct checkpoint c = {0};
    char hex[DIGEST_HEX];
    if (!a->resume)
        return agreement_put_text("none", value);
    PASS(checkpoint_read(a->resume, &c));
    digest_hex(c.digest, c.key.ranks * (size_t)DIGEST, hex);
    snprintf(value, VALUE, "step %llu sha256:%.*s", (unsigned long long)c.step, SHORT_HASH, hex);
    checkpoint_free(&c);
    return STATUS_OK;
}

/* In this order, so that the most particular difference is named: a plan differs in its seed. */
static const struct {
    const char *name;
    enum status (*put)(const struct agreement *a, char *value);
} rows[] = {
    {"version", put_version},
    {"ranks", agreement_put_ranks},
    {"--device", agreement_put_device},
    {"--compute", put_compute},
    {"--transport", put_transport},
    {"--collective", agreement_put_collective},
    {"--cuda-graphs", put_graphs},
    {"--cudnn", put_cudnn},
    {"--forward-only", put_forward_only},
    {"paced operators", put_paced},
    {"--learning-rate", put_learning_rate},
    {"--learning-rate-policy", put_policy},
    {"--text", put_training_text},
    {"--steps", put_steps},
    {"--warmup", put_warmup},
    {"--checkpoint", put_checkpoint},
    {"--checkpoint-every", put_checkpoint_every},
    {"--resume", put_resume},
    {"optimizer", put_optimizer},
    {"data type", put_dtype},
    {"seed", put_seed},
    {"stages", put_stages},
    {"schedule", put_schedule},
    {"microbatches", put_microbatches},
    {"microbatch size", put_microbatch_size},
    {"model", put_model},
    {"plan", agreement_put_plan},
};

/* ---- the text */

static const char failure[] = "failure";

enum status agreement_write(const struct agreement *a, char text[AGREEMENT])
{
    size_t n = 0;
    char out[AGREEMENT] = "";
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        char value[VALUE] = "";
        PASS(rows[k].put(a, value));
        for (char *c = value; *c; c++) /* a row is a line */
            *c = (unsigned char)*c < ' ' ? '?' : *c;
        int more = snprintf(out + n, AGREEMENT - n, "%s\t%s\n", rows[k].name, value);
        if (more < 0 || (n += (size_t)more) >= AGREEMENT)
            return error_set(STATUS_INVALID,
                             "the settings of this run have more than %d characters, too many for "
                             "ranks to compare",
                             AGREEMENT);
    }
    memcpy(text, out, AGREEMENT);
    return STATUS_OK;
}

/* Value of the row `name` of a text, printable; "nothing": there is none. */
static const char *agreement_find(const char text[AGREEMENT], const char *name, char value[VALUE])
{
    size_t length = strlen(name);
    snprintf(value, VALUE, "nothing");
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) != 0 || line[length] != '\t')
            continue;
        snprintf(value, VALUE, "%.*s", (int)strcspn(line + length + 1, "\n"), line + length + 1);
        break;
    }
    for (char *c = value; *c; c++)
        *c = (unsigned char)*c < ' ' || *c == 127 ? '?' : *c;
    return value;
}

void agreement_add_failure(const char *message, char text[AGREEMENT])
{
    size_t n = strlen(text);
    snprintf(text + n, AGREEMENT - n, "%s\t%.*s\n", failure, VALUE - 1, message);
}

enum status agreement_check(const char *name, const char said[AGREEMENT], const char *other,
                            const char expected[AGREEMENT])
{
    char heard[AGREEMENT], theirs[VALUE], ours[VALUE];
    memcpy(heard, said, AGREEMENT);
    heard[AGREEMENT - 1] = '\0';
    const bool alone = !strncmp(heard, failure, strlen(failure));
    for (size_t k = 0; k < sizeof rows / sizeof *rows && !alone; k++) {
        agreement_find(heard, rows[k].name, theirs);
        agreement_find(expected, rows[k].name, ours);
        if (strcmp(theirs, ours) != 0)
            return error_set(STATUS_INVALID, "%s has %s %s, but %s has %s", name, rows[k].name,
                             theirs, other, ours);
    }
    if (!strcmp(heard, expected))
        return STATUS_OK;
    return strstr(heard, failure)
               ? error_set(STATUS_INVALID, "%s: %s", name, agreement_find(heard, failure, theirs))
               : error_set(
                     STATUS_INVALID,
                     "%s and %s compare different settings; use the same foreline on all machines",
                     name, other);
}
