#define _XOPEN_SOURCE 700 /* realpath */
/* Checkpoints as directories: what must agree, which steps are complete, manifests. */
#include "exec/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/provenance.h"
#include "core/strategy/optimizer.h"
#include "exec/rendezvous.h"

const char checkpoint_magic[8] = "FLCKPT\r\n";
static const char checkpoint_format[] = "foreline-checkpoint";
enum { MANIFEST_VERSION = 1, NAME = 32 };
static const char manifest_name[] = "manifest.json";

/* ---- what must agree */

/* Everything of a model that decides what its parameters are and mean; costs do not. */
static void print_model(FILE *f, const struct model *m)
{
    fprintf(f, "%zu %" PRId64 "\n", m->n, m->element_bytes);
    for (size_t i = 0; i < m->n; i++) {
        const struct model_op *o = &m->op[i];
        fprintf(f, "%s %s %" PRId64 " %u %" PRId64, o->name, o->kind, o->parameter_bytes, o->shares,
                o->shared_bytes);
        for (size_t k = 0; k < o->attributes; k++)
            fprintf(f, " %s=%" PRId64, o->attribute[k].name, o->attribute[k].value);
        for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++)
            fprintf(f, " <%u", m->in[k]);
        fputc('\n', f);
    }
}

/* How ZeRO divides state and parameters of a rank: with level 1 the buckets of its stages, which
 * may be several; then whether it keeps a part of the state, and of the parameters. */
static void print_shares(FILE *f, const struct program *p, uint32_t r)
{
    bool shares = false, gathers = false;
    for (uint32_t s = 0; s < p->stages; s++) {
        const struct program_stage *stage = &p->stage[s];
        if (stage->zero == 0 || !program_rank_has(p, r, s))
            continue;
        for (uint32_t b = stage->bucket; b < stage->bucket + stage->buckets; b++) {
            if (stage->zero == 1 && p->bucket[b].bytes > 0)
                fprintf(f, " %u:%" PRId64, s, p->bucket[b].bytes);
            shares = shares || p->bucket[b].bytes > 0;
        }
        gathers = gathers || (program_reshards(stage) && shares);
    }
    fprintf(f, " %d%d", shares, gathers);
    for (uint32_t s = 0; s < p->stages; s++) /* over fewer replicas than there are */
        if (p->stage[s].group > 0 && program_rank_has(p, r, s))
            fprintf(f, " %u", p->stage[s].group);
}

static enum status print_plan(FILE *f, const struct program *p)
{
    fprintf(f, "%u %u %" PRIu64 "\n", p->microbatches, p->microbatch_size, p->seed);
    if (optimizer_is_tuned(p->optimizer))
        fprintf(f, "%s\n", p->optimizer);
    for (uint32_t r = 0; r < p->ranks; r++) {
        size_t n = program_rank_ops(p, r, NULL);
        uint32_t *op;
        PASS(ARRAY_NEW(op, n));
        program_rank_ops(p, r, op);
        fprintf(f, "%u %u", p->rank[r].replica, p->rank[r].shard);
        for (size_t k = 0; k < n; k++)
            fprintf(f, " %u", op[k]);
        print_shares(f, p, r);
        fputc('\n', f);
        free(op);
    }
    for (size_t s = 0; s < p->stages; s++) /* whose parts of what a replica keeps */
        for (uint32_t b = 0;
             p->stage[s].zero > 0 && p->stage[s].buckets > 1 && b < p->stage[s].buckets; b++)
            fprintf(f, "%zu %u\n", s, p->bucket[p->stage[s].bucket + b].low);
    return STATUS_OK;
}

/* SHA-256 of the text that model (or else program) prints. */
static enum status digest_text(const struct program *p, const struct model *m,
                               uint8_t digest[DIGEST])
{
    enum status st = STATUS_OK;
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f)
        return error_set(STATUS_NOMEM, "out of memory");
    if (m)
        print_model(f, m);
    else
        st = print_plan(f, p);
    bool fine = !ferror(f);
    if ((fclose(f) || !fine) && st == STATUS_OK)
        st = error_set(STATUS_NOMEM, "out of memory");
    if (st == STATUS_OK)
        digest_bytes(text, n, digest);
    free(text);
    return st;
}

/* Hashes of texts, so that the key does not depend on how structures are laid out in memory. */
enum status checkpoint_key(const struct program *p, const struct model *m, bool own,
                           struct checkpoint_key *out)
{
    struct checkpoint_key key = {.ranks = (uint32_t)p->ranks};
    for (size_t s = 0; s < p->stages; s++)
        if (own && p->stage[s].zero > 0)
            key.parts = PARTS_NCCL;
    PASS(digest_text(p, m, key.model));
    PASS(digest_text(p, NULL, key.plan));
    snprintf(key.optimizer, sizeof key.optimizer, "%s", optimizer_name_of(p->optimizer));
    *out = key;
    return STATUS_OK;
}

static const char *parts_name(const struct checkpoint_key *k)
{
    return k->parts == PARTS_NCCL ? "nccl" : "ring";
}

enum status checkpoint_match(const struct checkpoint_key *found,
                             const struct checkpoint_key *wanted, const char *path)
{
    if (memcmp(found->model, wanted->model, DIGEST) != 0)
        return error_set(STATUS_INVALID, "%s: checkpoint is of another model than the plan", path);
    if (memcmp(found->optimizer, wanted->optimizer, sizeof found->optimizer) != 0)
        return error_set(STATUS_INVALID,
                         "%s: checkpoint has optimizer '%.16s', but the plan has '%s'", path,
                         found->optimizer, wanted->optimizer);
    if (found->ranks != wanted->ranks)
        return error_set(STATUS_INVALID, "%s: checkpoint has %u ranks, but the plan has %u", path,
                         found->ranks, wanted->ranks);
    if (memcmp(found->plan, wanted->plan, DIGEST) != 0)
        return error_set(
            STATUS_INVALID,
            "%s: checkpoint does not fit the plan: stages, replicas, ZeRO, seed, microbatches or "
            "optimizer settings differ; resume with the plan of the checkpoint",
            path);
    if (found->parts != wanted->parts)
        return error_set(STATUS_INVALID,
                         "%s: checkpoint is sharded for --collective %s, but this run uses %s",
                         path, parts_name(found), parts_name(wanted));
    return STATUS_OK;
}

/* ---- directories */

enum status checkpoint_directory(const char *dir, uint64_t step, char path[CHECKPOINT_PATH])
{
    int n = snprintf(path, CHECKPOINT_PATH, "%s/step-%08" PRIu64, dir, step);
    return n > CHECKPOINT_PATH - NAME
               ? error_set(STATUS_INVALID,
                           "%.60s...: checkpoint path has %d bytes, expected at most %d", dir, n,
                           CHECKPOINT_PATH - NAME)
               : STATUS_OK;
}

/* A name in a directory of a step, which leaves room for it. */
static void checkpoint_path(const char *directory, const char *name, char path[CHECKPOINT_PATH])
{
    snprintf(path, CHECKPOINT_PATH, "%.*s/%.*s", CHECKPOINT_PATH - NAME, directory, NAME - 2, name);
}

/* A directory of a step is one itself, not a link to one. */
static bool checkpoint_is_directory(const char *path)
{
    struct stat s;
    return lstat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static bool checkpoint_is_complete(const char *directory)
{
    char path[CHECKPOINT_PATH];
    checkpoint_path(directory, manifest_name, path);
    return checkpoint_is_directory(directory) && !access(path, F_OK);
}

/* "step-" and exactly eight digits. */
static bool parse_step(const char *name, uint64_t *step)
{
    int end = 0;
    return sscanf(name, "step-%8" SCNu64 "%n", step, &end) == 1 && end == 13 && !name[end];
}

/* The last complete step in `dir` before `limit`; false: there is none. */
/* O(entries of the directory). */
static bool newest_before(const char *dir, uint64_t limit, uint64_t *out)
{
    bool found = false;
    DIR *d = opendir(dir);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        char path[CHECKPOINT_PATH];
        uint64_t step;
        if (!parse_step(e->d_name, &step) || step >= limit || (found && step < *out) ||
            checkpoint_directory(dir, step, path) != STATUS_OK || !checkpoint_is_complete(path))
            continue;
        found = true;
        *out = step;
    }
    if (d)
        closedir(d);
    return found;
}

/* rank-N.ckpt, or the same while it is written: *part. */
static bool is_rank_name(const char *name, bool *part)
{
    static const char end[] = ".ckpt";
    if (strncmp(name, "rank-", 5) != 0)
        return false;
    size_t digits = strspn(name + 5, "0123456789");
    const char *rest = name + 5 + digits;
    if (digits < 4 || strncmp(rest, end, sizeof end - 1) != 0)
        return false;
    rest += sizeof end - 1;
    *part = *rest != '\0';
    return !*part || (*rest == '.' && strlen(rest) == sizeof ".XXXXXX" - 1);
}

/* Is it a file that a run wrote there, by its name and by how it begins? A rank's file gets its
 * head last, so that one that was not finished may begin with zeros. */
static bool checkpoint_is_own_file(int folder, const char *name)
{
    static const char zeros[sizeof checkpoint_magic];
    char text[256] = "";
    struct stat s;
    bool part = false;
    bool rank = is_rank_name(name, &part);
    if (!rank && strncmp(name, manifest_name, sizeof manifest_name - 1) != 0)
        return false;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t n =
        fd >= 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode) ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (!rank)
        return n == 0 || (n > 0 && strstr(text, checkpoint_format));
    return n >= 0 && (!memcmp(text, checkpoint_magic, sizeof checkpoint_magic) ||
                      (part && !memcmp(text, zeros, sizeof zeros)));
}

/* The manifest first: a checkpoint that lacks a file must not count. Only what runs write, and no
 * directory that a link leads to. */
static void remove_step(const char *directory)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        if (fd >= 0)
            close(fd);
        return;
    }
    if (checkpoint_is_own_file(fd, manifest_name))
        unlinkat(fd, manifest_name, 0);
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        if (checkpoint_is_own_file(fd, e->d_name))
            unlinkat(fd, e->d_name, 0);
    closedir(d);
    rmdir(directory);
}

/* Twice through the directory: first find the oldest complete step that is kept, then remove what
 * is before it or was never completed. */
void checkpoint_clean(const char *dir, uint64_t last)
{
    uint64_t oldest = UINT64_MAX;
    for (int k = 0; k < CHECKPOINT_KEPT; k++)
        if (!newest_before(dir, oldest, &oldest))
            break;
    DIR *d = opendir(dir);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        char path[CHECKPOINT_PATH];
        uint64_t step;
        if (parse_step(e->d_name, &step) && checkpoint_directory(dir, step, path) == STATUS_OK &&
            checkpoint_is_directory(path) &&
            (checkpoint_is_complete(path) ? step < oldest : step <= last))
            remove_step(path);
    }
    if (d)
        closedir(d);
}

/* ---- manifests */

enum status checkpoint_commit(const struct checkpoint *c, const struct provenance *by)
{
    enum status st;
    char path[CHECKPOINT_PATH], hex[2 * DIGEST + 1];
    struct file_out f = {0};
    checkpoint_path(c->directory, manifest_name, path);
    struct stat s;
    if (!checkpoint_is_directory(c->directory))
        return error_set(STATUS_INVALID, "%s: not a folder (symbolic links are not followed)",
                         c->directory);
    if (lstat(path, &s) == 0 && !S_ISREG(s.st_mode))
        return error_set(STATUS_INVALID, "%s: not a regular file", path);
    TRY(file_create(path, &f));
    struct json_writer w = {.stream = f.stream};
    json_put_header(&w, checkpoint_format, MANIFEST_VERSION, by);
    json_put_integer(&w, "step", (int64_t)c->step);
    hex_print(c->key.model, DIGEST, hex);
    json_put_string(&w, "model_sha256", hex);
    hex_print(c->key.plan, DIGEST, hex);
    json_put_string(&w, "plan_sha256", hex);
    json_put_string(&w, "optimizer", c->key.optimizer);
    if (c->key.parts != PARTS_RING)
        json_put_string(&w, "parts", parts_name(&c->key));
    json_open_array(&w, "ranks", false);
    for (uint32_t r = 0; r < c->key.ranks; r++) {
        hex_print(c->digest + (size_t)r * DIGEST, DIGEST, hex);
        json_put_string(&w, NULL, hex);
    }
    json_close(&w);
    json_close(&w);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}

static enum status read_hash(const struct json_at *at, uint8_t digest[DIGEST])
{
    const char *text;
    PASS(json_get_string(at, &text));
    if (hex_parse(text, digest, DIGEST) != STATUS_OK)
        return json_error(at, "expected a SHA-256 hash of 64 hexadecimal digits");
    return STATUS_OK;
}

/* Absent before there were others than the ring's. */
static enum status checkpoint_read_parts(const struct json_at *root, struct checkpoint_key *key)
{
    struct json_at at;
    const char *name;
    PASS(json_optional(root, "parts", &at));
    if (!at.value)
        return STATUS_OK;
    PASS(json_get_string(&at, &name));
    key->parts = PARTS_NCCL;
    return strcmp(name, parts_name(key)) != 0
               ? json_error(&at, "unknown sharding \"parts\" of the checkpoint, expected \"nccl\"")
               : STATUS_OK;
}

static enum status read_fields(const struct json_at *root, struct checkpoint *c)
{
    struct json_at at;
    size_t n;
    int64_t step;
    const char *optimizer;
    PASS(json_check_keys(root, "step model_sha256 plan_sha256 optimizer parts ranks",
                         JSON_TABLES(NULL)));
    PASS(json_need_integer(root, "step", 1, UINT32_MAX, &step));
    c->step = (uint64_t)step;
    PASS(json_field(root, "model_sha256", &at));
    PASS(read_hash(&at, c->key.model));
    PASS(json_field(root, "plan_sha256", &at));
    PASS(read_hash(&at, c->key.plan));
    PASS(json_field(root, "optimizer", &at));
    PASS(json_get_string(&at, &optimizer));
    if (strlen(optimizer) >= sizeof c->key.optimizer)
        return json_error(&at, "optimizer has %zu characters, expected at most %zu",
                          strlen(optimizer), sizeof c->key.optimizer - 1);
    strcpy(c->key.optimizer, optimizer);
    PASS(checkpoint_read_parts(root, &c->key));
    PASS(json_field(root, "ranks", &at));
    PASS(json_get_array(&at, 1 << 20, &n));
    c->key.ranks = (uint32_t)n;
    PASS(ARRAY_NEW(c->digest, (n + 1) * DIGEST));
    for (size_t r = 0; r < n; r++) {
        struct json_at item = json_item(&at, r);
        PASS(read_hash(&item, c->digest + r * DIGEST));
    }
    return STATUS_OK;
}

enum status checkpoint_read(const char *step_directory, struct checkpoint *out)
{
    enum status st;
    struct checkpoint c = {0};
    struct json_document d = {0};
    char path[CHECKPOINT_PATH];
    if (strlen(step_directory) > CHECKPOINT_PATH - NAME)
        return error_set(STATUS_INVALID, "%.60s...: path has more than %d bytes", step_directory,
                         CHECKPOINT_PATH - NAME);
    strcpy(c.directory, step_directory);
    checkpoint_path(step_directory, manifest_name, path);
    TRY(json_read(path, checkpoint_format, MANIFEST_VERSION, &d));
    struct json_at root = json_root(&d);
    TRY(read_fields(&root, &c));
    *out = c;
    c = (struct checkpoint){0};
out:
    checkpoint_free(&c);
    json_document_free(&d);
    return st;
}

/* `dir` may be a run's directory or that of one step, or a link to either: it is what the user
 * names. */
enum status checkpoint_find(const char *dir, struct checkpoint *out)
{
    uint64_t step;
    char path[CHECKPOINT_PATH], whole[PATH_MAX];
    if (realpath(dir, whole) && strlen(whole) < CHECKPOINT_PATH - NAME &&
        checkpoint_is_complete(whole))
        return checkpoint_read(whole, out);
    if (!newest_before(dir, UINT64_MAX, &step))
        return error_set(STATUS_IO, "%s: no complete checkpoint found", dir);
    PASS(checkpoint_directory(dir, step, path));
    return checkpoint_read(path, out);
}

void checkpoint_free(struct checkpoint *c)
{
    free(c->digest);
    *c = (struct checkpoint){0};
}
