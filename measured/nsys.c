/* Nsight Systems: the SQLite database that `nsys export --type sqlite` writes.
 *
 * A rank is a GPU as a process used it. Steps are the ranges of NVTX whose names are a word for a step and a number,
 * of the rank's process. Where layers are wanted, other ranges are those of a model; those that emit_nvtx() makes
 * ("aten::mm, seq = 12, op_id = 3") are ops of the host. */
#include <ctype.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/array.h"
#include "core/text.h"
#include "measured/layers.h"
#include "measured/reader.h"

/* What a hostile schema (a view without end) may make SQLite do: so many times PATIENCE instructions. */
enum { PATIENCE = 100000, PATIENTLY = 10000, LONGEST = 1 << 20 }; /* bytes of a value */

struct database {
    sqlite3 *db;
    const char *path;
    struct measured_run *run;
    size_t first;
    int64_t *process; /* [run->ranks - first] globalPid of each */
    int left;
    struct launches launches;
    struct layers layers;
};

static int count_down(void *data)
{
    struct database *d = data;
    return d->left-- <= 0;
}

static enum status failed(const struct database *d)
{
    int code = sqlite3_errcode(d->db);
    if (code == SQLITE_NOMEM)
        return error_set(STATUS_NOMEM, "out of memory");
    return error_set(STATUS_PARSE, "%s: %s", d->path,
                     code == SQLITE_INTERRUPT ? "reading it takes too long"
                                              : sqlite3_errmsg(d->db));
}

/* "file:" and the path with what means something in URIs escaped. */
static enum status open_database(struct database *d)
{
    enum status st = STATUS_OK;
    char *uri = NULL;
    size_t n = 0, room = 3 * strlen(d->path) + 32;
    TRY(ARRAY_NEW(uri, room));
    n = (size_t)snprintf(uri, room, "file:");
    for (const char *c = d->path; *c; c++)
        n += (size_t)snprintf(uri + n, room - n,
                              isalnum((unsigned char)*c) || strchr("/._-", *c) ? "%c" : "%%%02X",
                              (unsigned char)*c);
    snprintf(uri + n, room - n, "?immutable=1");
    if (sqlite3_open_v2(uri, &d->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL) != SQLITE_OK) {
        st = d->db ? failed(d) : error_set(STATUS_NOMEM, "out of memory");
        goto out;
    }
    sqlite3_progress_handler(d->db, PATIENCE, count_down, d);
    sqlite3_limit(d->db, SQLITE_LIMIT_LENGTH, LONGEST);
    if (sqlite3_exec(d->db, "PRAGMA trusted_schema=OFF; PRAGMA cache_size=-32768", NULL, NULL,
                     NULL) != SQLITE_OK)
        st = failed(d);
out:
    free(uri);
    return st;
}

static enum status has_table(struct database *d, const char *name, bool *out)
{
    sqlite3_stmt *q = NULL;
    if (sqlite3_prepare_v2(d->db, "SELECT 1 FROM sqlite_master WHERE type='table' AND name=?1", -1,
                           &q, NULL) != SQLITE_OK)
        return failed(d);
    sqlite3_bind_text(q, 1, name, -1, SQLITE_STATIC);
    int code = sqlite3_step(q);
    *out = code == SQLITE_ROW;
    sqlite3_finalize(q);
    return code == SQLITE_ROW || code == SQLITE_DONE ? STATUS_OK : failed(d);
}

/* The rank of a GPU in a process. */
static enum status rank_of(struct database *d, int64_t process, int64_t device, size_t *rank)
{
    struct measured_run *run = d->run;
    size_t n = run->ranks - d->first;
    for (size_t i = 0; i < n; i++)
        if (d->process[i] == process && run->rank[d->first + i].device == device) {
            *rank = d->first + i;
            return STATUS_OK;
        }
    if (n == 1024)
        return error_set(STATUS_INVALID, "%s: more than 1024 GPUs", d->path);
    PASS(ARRAY_ROOM(d->process, n));
    d->process[n] = process;
    return run_add_rank(run, d->path, -1, device, rank);
}

/* Correlation numbers are of a process, whose own number is above 24 bits for its threads. */
static int64_t launch_of(int64_t process, int64_t correlation)
{
    return (int64_t)((uint64_t)process >> 24 & INT32_MAX) << 32 | (correlation & UINT32_MAX);
}

/* Columns: start, end, device, stream, launch, process, bytes, name or kind of copy. */
static enum status take_row(struct database *d, sqlite3_stmt *q, bool kernels)
{
    static const char *const copies[] = {[1] = "HtoD", [2] = "DtoH", [8] = "DtoD", [10] = "PtoP"};
    size_t rank;
    struct span s = {.start_ns = sqlite3_column_int64(q, 0),
                     .end_ns = sqlite3_column_int64(q, 1),
                     .stream = (uint32_t)sqlite3_column_int64(q, 3),
                     .launch = launch_of(sqlite3_column_int64(q, 5), sqlite3_column_int64(q, 4)),
                     .bytes = sqlite3_column_int64(q, 6),
                     .op = RUN_NO_OP,
                     .layer = RUN_NO_OP,
                     .purpose = OP_PURPOSES};
    const char *text = (const char *)sqlite3_column_text(q, 7), *name = text ? text : "kernel";
    if (s.start_ns < 0 || s.start_ns > INT64_MAX / 4 || s.end_ns > INT64_MAX / 4) {
        d->run->without_time++;
        return STATUS_OK;
    }
    if (kernels && span_communicates(name)) {
        s.what = SPAN_COMMUNICATION;
        s.kind = (uint8_t)span_kind_of(name);
    } else if (!kernels) {
        int kind = sqlite3_column_int(q, 7);
        name = kind >= 0 && kind < (int)(sizeof copies / sizeof *copies) && copies[kind]
                   ? copies[kind]
               : kind == -1 ? "memset"
                            : "memcpy";
        s.what = SPAN_COPY;
        s.kind = (uint8_t)span_copy_of(name);
        s.bytes = s.bytes < 0 ? 0 : s.bytes;
    }
    PASS(rank_of(d, sqlite3_column_int64(q, 5), sqlite3_column_int64(q, 2), &rank));
    return run_add_span(d->run, d->path, rank, name, &s);
}

static enum status take_table(struct database *d, const char *table, const char *sql, bool kernels)
{
    enum status st = STATUS_OK;
    sqlite3_stmt *q = NULL;
    bool there;
    int code;
    TRY(has_table(d, table, &there));
    if (!there)
        return STATUS_OK;
    if (sqlite3_prepare_v2(d->db, sql, -1, &q, NULL) != SQLITE_OK) {
        st = failed(d);
        goto out;
    }
    while ((code = sqlite3_step(q)) == SQLITE_ROW)
        TRY(take_row(d, q, kernels));
    if (code != SQLITE_DONE)
        st = failed(d);
out:
    sqlite3_finalize(q);
    return st;
}

/* ---- steps */

/* "ProfilerStep#12", "training_step_12", "iteration 12", "step: 12": a word and a number alone. */
static bool is_step(const char *name, int64_t *number)
{
    static const char *const word[] = {"profilerstep", "training_step", "train_step",
                                       "iteration",    "iter",          "step"};
    for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
        size_t n = strlen(word[i]);
        if (strncasecmp(name, word[i], n) != 0)
            continue;
        const char *digits = name + n + strspn(name + n, " _:#-");
        size_t length = strspn(digits, "0123456789");
        if (length == 0 || length > 15 || digits[length])
            return false;
        *number = strtoll(digits, NULL, 10);
        return true;
    }
    return false;
}

static enum status add_step(struct database *d, int64_t process, const struct run_step *s)
{
    for (size_t r = d->first; r < d->run->ranks; r++) {
        struct run_rank *rank = &d->run->rank[r];
        if (d->process[r - d->first] != process)
            continue;
        if (rank->steps > 0 && rank->step[rank->steps - 1].number >= s->number)
            d->run->repeated++; /* by another thread, or a range within */
        else
            PASS(run_add_step(rank, d->path, s));
    }
    return STATUS_OK;
}

/* A range that is no step. */
static enum status take_range(struct database *d, char *name, struct layer_op *o)
{
    enum launch_about about;
    uint32_t meaning;
    char *end = strstr(name, ", seq = ");
    if (launches_means(name, &about, &meaning))
        PASS(launches_add_part(&d->launches, o->thread, o->start_ns, o->end_ns, about, meaning));
    o->number = end ? strtoll(end + strlen(", seq = "), NULL, 10) : -1;
    end = end ? end : strstr(name, ", op_id = ");
    if (end) {
        *end = '\0';
        PASS(layers_add_op(&d->layers, name, o));
    } else if (d->run->layers == LAYERS_OPS || !layers_marks(name)) {
        return STATUS_OK;
    }
    PASS(run_add_name(d->run, d->path, name, &meaning));
    return end ? launches_add_part(&d->launches, o->thread, o->start_ns, o->end_ns, ABOUT_OP,
                                   meaning)
               : layers_add_range(&d->layers, o->thread, o->start_ns, o->end_ns, meaning);
}

/* A thread's number is its process' with 24 bits for itself. */
static enum status take_steps(struct database *d)
{
    enum status st = STATUS_OK;
    sqlite3_stmt *q = NULL;
    bool there;
    int code;
    char *text = NULL;
    TRY(has_table(d, "NVTX_EVENTS", &there));
    if (!there)
        return STATUS_OK;
    if (sqlite3_prepare_v2(d->db,
                           "SELECT e.start, e.end, e.globalTid, coalesce(e.text, s.value) "
                           "FROM NVTX_EVENTS e LEFT JOIN StringIds s ON s.id = e.textId "
                           "WHERE e.end > e.start ORDER BY e.start",
                           -1, &q, NULL) != SQLITE_OK) {
        st = failed(d);
        goto out;
    }
    while ((code = sqlite3_step(q)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(q, 3);
        struct run_step s = {0, sqlite3_column_int64(q, 0), sqlite3_column_int64(q, 1)};
        int64_t thread = sqlite3_column_int64(q, 2);
        if (!name || s.start_ns < 0 || s.end_ns >= INT64_MAX / 4)
            continue;
        if (is_step(name, &s.number)) {
            TRY(add_step(d, thread & ~INT64_C(0xFFFFFF), &s));
        } else if (d->run->layers != LAYERS_NONE) {
            free(text);
            text = NULL;
            TRY(text_copy(name, &text));
            TRY(take_range(d, text, &(struct layer_op){-1, thread, s.start_ns, s.end_ns, 0}));
        }
    }
    if (code != SQLITE_DONE)
        st = failed(d);
out:
    free(text);
    sqlite3_finalize(q);
    return st;
}

/* Which thread launched what, when. */
static enum status take_launches(struct database *d)
{
    enum status st = STATUS_OK;
    sqlite3_stmt *q = NULL;
    bool there;
    int code;
    TRY(has_table(d, "CUPTI_ACTIVITY_KIND_RUNTIME", &there));
    if (!there)
        FAIL(STATUS_INVALID, "%s: launches are not recorded, so kernels have no layers", d->path);
    if (sqlite3_prepare_v2(
            d->db, "SELECT start, globalTid, correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME", -1,
            &q, NULL) != SQLITE_OK) {
        st = failed(d);
        goto out;
    }
    while ((code = sqlite3_step(q)) == SQLITE_ROW) {
        int64_t thread = sqlite3_column_int64(q, 1);
        TRY(launches_add(&d->launches, launch_of(thread, sqlite3_column_int64(q, 2)), thread,
                         sqlite3_column_int64(q, 0)));
    }
    if (code != SQLITE_DONE)
        st = failed(d);
out:
    sqlite3_finalize(q);
    return st;
}

static enum status find_layers(struct database *d)
{
    PASS(take_launches(d));
    for (size_t r = d->first; r < d->run->ranks; r++) {
        struct run_rank *rank = &d->run->rank[r];
        PASS(launches_find(&d->launches, rank->span, rank->spans));
        PASS(layers_find(&d->layers, &d->launches, d->run, d->path, rank->step, rank->steps,
                         rank->span, rank->spans));
    }
    return STATUS_OK;
}

static enum status read(const char *path, struct bytes *b, struct measured_run *run)
{
    enum status st;
    struct database d = {.path = path, .run = run, .first = run->ranks, .left = PATIENTLY};
    (void)b; /* SQLite reads the file itself */
    TRY(open_database(&d));
    TRY(take_table(
        &d, "CUPTI_ACTIVITY_KIND_KERNEL",
        "SELECT k.start, k.end, k.deviceId, k.streamId, k.correlationId, k.globalPid, 0, "
        "s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k LEFT JOIN StringIds s "
        "ON s.id = k.demangledName",
        true));
    TRY(take_table(
        &d, "CUPTI_ACTIVITY_KIND_MEMCPY",
        "SELECT start, end, deviceId, streamId, correlationId, globalPid, bytes, copyKind "
        "FROM CUPTI_ACTIVITY_KIND_MEMCPY",
        false));
    TRY(take_table(&d, "CUPTI_ACTIVITY_KIND_MEMSET",
                   "SELECT start, end, deviceId, streamId, correlationId, globalPid, bytes, -1 "
                   "FROM CUPTI_ACTIVITY_KIND_MEMSET",
                   false));
    if (run->ranks == d.first)
        FAIL(STATUS_INVALID, "%s: no activity of a GPU in it: was it recorded with --trace=cuda?",
             path);
    TRY(take_steps(&d));
    if (run->layers != LAYERS_NONE)
        TRY(find_layers(&d));
out:
    sqlite3_close(d.db);
    launches_free(&d.launches);
    layers_free(&d.layers);
    free(d.process);
    return st;
}

static bool recognises(const char *head, size_t length)
{
    return length >= 16 && memcmp(head, "SQLite format 3", 16) == 0;
}

const struct reader reader_nsys = {
    .name = "nsys",
    .summary = "Nsight Systems: nsys export --type sqlite",
    .recognises = recognises,
    .read = read,
};
