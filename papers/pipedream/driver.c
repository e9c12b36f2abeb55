/* Translates driver files of PipeDream's runtime, key by key. A machine of theirs is "host:gpu", a
 * rank each. */
#include "papers/pipedream/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/intern.h"
#include "core/base/text.h"
#include "study/experiment.h"
#include "topologies/yaml.h"

enum { MACHINES_MOST = 1 << 16, GPU_MOST = 1 << 16, PATH_MOST = 4096 };
static const char plan_prefix[] = "plan.";

/* The file, and how far its translation has been written. */
struct driver {
    const char *path;
    struct yaml_value root;
    struct arena memory;
    FILE *out;
    size_t line;
};

static enum status driver_error(const struct driver *d, size_t line, const char *what)
{
    return error_set(STATUS_PARSE, "%s:%zu: %s", d->path, line, what);
}

/* Does the file say a setting of foreline itself? "plan.NAME" may stand in a map. */
static bool driver_says(const struct driver *d, const char *key)
{
    size_t n = strlen(plan_prefix);
    const struct yaml_value *plan = yaml_get(&d->root, "plan");
    return yaml_get(&d->root, key) ||
           (plan && !strncmp(key, plan_prefix, n) && yaml_get(plan, key + n));
}

static const char *driver_value(const struct driver *d, const char *key)
{
    const struct yaml_value *v = yaml_get(&d->root, key);
    return v ? v->text : NULL;
}

/* Python's words of truth, which are YAML's too: 0, 1, or -1 for any other. */
static int driver_truth(const char *text)
{
    static const char *const words[] = {"False", "True", "false", "true", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(text, words[i]))
            return (int)(i % 2);
    return -1;
}

static bool is_on(const char *text)
{
    return text && driver_truth(text) == 1;
}

/* ---- writing: an entry of one map of YAML, so that several fit into a line */

static void driver_put_text(struct driver *d, const char *text)
{
    putc('\'', d->out);
    for (; *text; text++) {
        putc(*text, d->out);
        if (*text == '\'')
            putc('\'', d->out);
    }
    putc('\'', d->out);
}

/* A setting, unless the file says it itself. */
static void driver_put(struct driver *d, const char *key, const char *value)
{
    if (driver_says(d, key))
        return;
    driver_put_text(d, key);
    fputs(": ", d->out);
    driver_put_text(d, value);
    fputs(", ", d->out);
}

static void pipedream_driver_put_value(struct driver *d, const struct yaml_value *v)
{
    if (v->text) {
        driver_put_text(d, v->text);
        return;
    }
    putc(v->is_map ? '{' : '[', d->out);
    for (size_t i = 0; i < (v->is_map ? v->entries : v->items); i++) {
        if (v->is_map) {
            driver_put_text(d, v->entry[i].key);
            fputs(": ", d->out);
        }
        pipedream_driver_put_value(d, v->is_map ? &v->entry[i].value : &v->item[i]);
        fputs(", ", d->out);
    }
    putc(v->is_map ? '}' : ']', d->out);
}

/* ---- keys that become other keys */

/* models.vgg16.gpus=4: the second word names the model. */
static enum status driver_put_model(struct driver *d, const struct yaml_value *v)
{
    static const char *const names[][2] = {{"alexnet", "alexnet"},
                                           {"vgg16", "vgg"},
                                           {"resnet50", "resnet"},
                                           {"gnmt", "gnmt"},
                                           {"gnmt_large", "gnmt:layers=8"}};
    const char *first = strchr(v->text, '.'), *name = first ? first + 1 : v->text;
    size_t length = strcspn(name, ".");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i][0]) == length && !strncmp(name, names[i][0], length)) {
            driver_put(d, "model", names[i][1]);
            return STATUS_OK;
        }
    if (!driver_says(d, "model"))
        return error_set(STATUS_PARSE,
                         "%s:%zu: module: unknown module '%.*s'; add a line 'model: NAME' that "
                         "names a model of foreline",
                         d->path, v->line, (int)length, name);
    return STATUS_OK;
}

/* Beside the driver file, or a folder up, as where PipeDream's lie. */
static enum status put_conf(struct driver *d, const struct yaml_value *v)
{
    char path[PATH_MOST];
    const char *slash = strrchr(d->path, '/');
    int folder = slash ? (int)(slash - d->path) + 1 : 0;
    if (!*v->text || v->text[0] == '/') {
        if (*v->text)
            driver_put(d, "import", v->text);
        return STATUS_OK;
    }
    for (int up = 0; up < 2; up++) {
        int n = snprintf(path, sizeof path, "%.*s%s%s", folder, d->path, up ? "../" : "", v->text);
        if (n >= (int)sizeof path)
            return driver_error(d, v->line, "config_file: path too long");
        if (!access(path, R_OK) || up == 1)
            break;
    }
    driver_put(d, "import", path);
    return STATUS_OK;
}

struct machines {
    size_t hosts, gpus; /* gpus: of every host, 0: not all have as many, side by side */
};

/* Ranks of a host take its GPUs one after the other, so that is what every "host:gpu" has to say.
 * *n: hosts. */
static enum status check_gpus(const struct driver *d, const struct yaml_value *v, size_t *n)
{
    enum status st = STATUS_OK;
    struct interner hosts = {0};
    uint32_t host, *ranks = NULL; /* [hosts] so far */
    uint64_t gpu;
    if (v->items == 0 || v->items > MACHINES_MOST)
        return driver_error(d, v->line, "machines: expected a list of 'host:gpu'");
    PASS(ARRAY_NEW(ranks, v->items));
    for (size_t i = 0; i < v->items; i++) {
        const char *text = v->item[i].text, *colon = text ? strchr(text, ':') : NULL;
        if (!colon || colon == text || !text_count(colon + 1, GPU_MOST, &gpu))
            TRY(driver_error(d, v->item[i].line, "machines: expected 'host:gpu'"));
        TRY(intern(&hosts, text, (size_t)(colon - text), &host, NULL));
        if (gpu != ranks[host]++)
            FAIL(STATUS_PARSE,
                 "%s:%zu: machines: got '%.80s', expected GPU %u: the ranks of a host use its GPUs "
                 "in order, from 0",
                 d->path, v->item[i].line, text, ranks[host] - 1);
    }
    *n = hosts.n;
out:
    interner_free(&hosts);
    free(ranks);
    return st;
}

/* "n1:0, n1:1, n2:0" -> "n1:2,n2:1" */
static enum status list_hosts(const struct driver *d, const struct yaml_value *v, FILE *out,
                              struct machines *m)
{
    const char *last = "";
    size_t length = 0, here = 0, hosts = 0;
    *m = (struct machines){0};
    PASS(check_gpus(d, v, &hosts));
    for (size_t i = 0; i < v->items; i++) {
        const char *text = v->item[i].text;
        size_t n = strcspn(text, ":");
        bool same = length == n && !strncmp(last, text, n);
        if (!same && here > 0) {
            m->gpus = m->hosts == 1 || m->gpus == here ? here : 0;
            fprintf(out, "%.*s:%zu,", (int)length, last, here);
        }
        here = same ? here + 1 : 1;
        m->hosts += !same;
        last = text;
        length = n;
    }
    m->gpus = m->hosts == hosts && (hosts == 1 || m->gpus == here) ? here : 0;
    fprintf(out, "%.*s:%zu", (int)length, last, here);
    return STATUS_OK;
}

static enum status driver_put_machines(struct driver *d, const struct yaml_value *v)
{
    char platform[96];
    struct machines m;
    struct file_text hosts;
    PASS(file_text_open(&hosts));
    enum status st = file_text_close(&hosts, list_hosts(d, v, hosts.stream, &m));
    if (st == STATUS_OK)
        driver_put(d, "hosts", hosts.text);
    free(hosts.text);
    if (st != STATUS_OK)
        return st;
    if (driver_says(d, "platform"))
        return STATUS_OK;
    if (m.gpus == 0)
        return driver_error(
            d, v->line,
            "machines: the hosts have different numbers of GPUs, or the GPUs of a host are not "
            "listed together; add a line 'platform: NAME' that names the platform");
    if (m.hosts == 1)
        snprintf(platform, sizeof platform,
                 m.gpus > 1 ? "node:gpus=%zu" : "node:gpus=2@devices=%zu", m.gpus);
    else
        snprintf(platform, sizeof platform, "rail:nodes=%zu,gpus=%zu", m.hosts, m.gpus);
    driver_put(d, "platform", platform);
    return STATUS_OK;
}

static enum status driver_put_optimizer(struct driver *d, const struct yaml_value *v)
{
    char text[96];
    const char *decay = driver_value(d, "weight_decay");
    const char *name = !strcmp(v->text, "image_classification") ? "sgd:momentum=0.9,"
                       : !strcmp(v->text, "translation")        ? "adam:"
                                                                : NULL;
    if (!name && !driver_says(d, "plan.optimizer"))
        return driver_error(d, v->line,
                            "model_type: expected 'image_classification' or 'translation'; for "
                            "other types, add a line 'plan.optimizer: NAME'");
    if (name) {
        snprintf(text, sizeof text, "%s%s%.40s", name, decay ? "decay=" : "", decay ? decay : "");
        text[strlen(text) - (decay == NULL)] = '\0'; /* without what stood before it */
        driver_put(d, "plan.optimizer", text);
    }
    return STATUS_OK;
}

/* An epoch is a step: there is no set of data that ends. */
static enum status driver_put_policy(struct driver *d, const struct yaml_value *v)
{
    char text[128];
    const char *epochs = driver_value(d, "epochs");
    bool polynomial = !strcmp(v->text, "polynomial");
    if (polynomial && !epochs)
        return driver_error(d, v->line,
                            "learning_rate_policy: 'polynomial' needs the key 'epochs'");
    snprintf(text, sizeof text, "%.40s:epoch=1%s%.20s%s", v->text, polynomial ? ",epochs=" : "",
             polynomial ? epochs : "", is_on(driver_value(d, "lr_warmup")) ? ",warmup=5" : "");
    driver_put(d, "learning-rate-policy", text);
    return STATUS_OK;
}

static enum status put_backend(struct driver *d, const struct yaml_value *v)
{
    const char *const known[][3] = {
        {"gloo", "transport", "tcp"}, {"mpi", "transport", "mpi"}, {"nccl", "device", "cuda"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(v->text, known[i][0])) {
            driver_put(d, known[i][1], known[i][2]);
            return STATUS_OK;
        }
    return driver_error(d, v->line, "distributed_backend: expected 'gloo', 'nccl' or 'mpi'");
}

static enum status put_pipelining(struct driver *d, const struct yaml_value *v)
{
    const char *conf = driver_value(d, "config_file"); /* without it one rank has all */
    if (is_on(v->text) && conf && *conf)
        driver_put(d, "plan.no-input-pipelining", "true");
    return STATUS_OK;
}

static enum status driver_put_schedule(struct driver *d, const struct yaml_value *v)
{
    if (is_on(v->text))
        driver_put(d, "plan.schedule", "macrobatch");
    return STATUS_OK;
}

static enum status put_recompute(struct driver *d, const struct yaml_value *v)
{
    if (is_on(v->text))
        driver_put(d, "plan.recompute", "full");
    return STATUS_OK;
}

static const struct driver_key {
    const char *name, *to; /* a key of the same value; or `write` does it; neither: a comment */
    enum status (*write)(struct driver *d, const struct yaml_value *v);
    enum { ONE, LIST, TRUTH } type;
    const char *with; /* the key that says it; NULL: not of another one */
} keys[] = {
    {"log_directory", "folder", NULL, ONE, NULL},
    {"module", NULL, driver_put_model, ONE, NULL},
    {"machines", NULL, driver_put_machines, LIST, NULL},
    {"config_file", NULL, put_conf, ONE, NULL},
    {"batch_size", "plan.microbatch-size", NULL, ONE, NULL},
    {"learning_rate", "learning-rate", NULL, ONE, NULL},
    {"learning_rate_policy", NULL, driver_put_policy, ONE, NULL},
    {"model_type", NULL, driver_put_optimizer, ONE, NULL},
    {"epochs", "steps", NULL, ONE, NULL},
    {"print_frequency", "loss-every", NULL, ONE, NULL},
    {"distributed_backend", NULL, put_backend, ONE, NULL},
    {"macrobatch", NULL, driver_put_schedule, TRUTH, NULL},
    {"recompute", NULL, put_recompute, TRUTH, NULL},
    {"no_input_pipelining", NULL, put_pipelining, TRUTH, NULL},
    {"weight_decay", NULL, NULL, ONE, "model_type"},
    {"lr_warmup", NULL, NULL, TRUTH, "learning_rate_policy"},
    {"data_dir", NULL, NULL, ONE, NULL},
    {"container", NULL, NULL, ONE, NULL},
    {"synthetic_data", NULL, NULL, ONE, NULL},
    {"verbose_frequency", NULL, NULL, ONE, NULL},
    {"compress_activations", NULL, NULL, ONE, NULL},
    {"compress_in_gpu", NULL, NULL, ONE, NULL},
    {"translation_model", NULL, NULL, ONE, NULL},
};

static enum status put_entry(struct driver *d, const struct yaml_entry *e)
{
    const struct yaml_value *v = &e->value;
    const struct driver_key *key = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !key; i++)
        key = !strcmp(keys[i].name, e->key) ? &keys[i] : NULL;
    for (; d->line < v->line; d->line++)
        putc('\n', d->out);
    if (!key) { /* foreline's own */
        driver_put_text(d, e->key);
        fputs(": ", d->out);
        pipedream_driver_put_value(d, v);
        fputs(", ", d->out);
        return STATUS_OK;
    }
    if (key->type == LIST ? v->text || v->is_map : !v->text)
        return error_set(STATUS_PARSE, "%s:%zu: %s: expected %s", d->path, v->line, e->key,
                         key->type == LIST ? "a list" : "one value");
    if (key->type == TRUTH && driver_truth(v->text) < 0)
        return error_set(STATUS_PARSE, "%s:%zu: %s: '%.40s': expected True or False", d->path,
                         v->line, e->key, v->text);
    if (key->with && !driver_value(d, key->with) && !(key->type == TRUTH && !is_on(v->text)))
        return error_set(STATUS_PARSE, "%s:%zu: %s: needs the key %s, which is missing", d->path,
                         v->line, e->key, key->with);
    if (key->write)
        return key->write(d, v);
    if (key->to)
        driver_put(d, key->to, v->text);
    return STATUS_OK;
}

/* What has no key here is told in comments at the end. */
static void put_comments(struct driver *d)
{
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (!keys[k].to && !keys[k].write && driver_value(d, keys[k].name))
            fprintf(d->out, "# %s%s\n", keys[k].name,
                    keys[k].with ? " is translated above" : " has no effect here");
}

/* Driver files say three things; who says two of them means the third. */
static enum status driver_check(const struct driver *d, bool *is)
{
    static const char *const all[] = {"module", "machines", "log_directory"};
    enum { ALL = sizeof all / sizeof *all };
    size_t n = 0, missing = 0;
    for (size_t i = 0; i < ALL; i++)
        if (yaml_get(&d->root, all[i]))
            n++;
        else
            missing = i;
    *is = n == ALL;
    if (n != ALL - 1)
        return STATUS_OK;
    return error_set(STATUS_PARSE, "%s: PipeDream driver file lacks the key %s%s", d->path,
                     all[missing],
                     !strcmp(all[missing], "machines") ? ": a list of 'host:gpu'" : "");
}

enum status driver_translate(const char *path, const char *text, size_t length, char **out)
{
    enum status st;
    struct driver d = {.path = path, .line = 1};
    struct file_text to = {0};
    if (length > EXPERIMENT_BYTES) /* neither is: said when it is read as foreline's */
        return STATUS_OK;
    st = yaml_read_foreign(path, text, length, &d.memory, &d.root);
    if (st == STATUS_NOMEM)
        goto out;
    bool is = st == STATUS_OK; /* else it is said when the file is read as foreline's */
    TRY(is ? driver_check(&d, &is) : STATUS_OK);
    if (!is)
        goto out;
    TRY(file_text_open(&to));
    d.out = to.stream;
    fputs("{ ", d.out);
    for (size_t i = 0; i < d.root.entries && st == STATUS_OK; i++)
        st = put_entry(&d, &d.root.entry[i]);
    fputs("}\n", d.out);
    put_comments(&d);
    TRY(file_text_close(&to, st));
    MOVE(out, to.text);
out:
    free(to.text);
    arena_free(&d.memory);
    return st;
}
