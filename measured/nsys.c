/* Nsight Systems: the SQLite database that `nsys export --type sqlite` writes.
 *
 * A rank is a GPU as a process used it. Steps are the ranges of NVTX whose names are a word for a
 * step and a number, of the rank's process. Where layers are wanted, other ranges are those of a
 * model; those that emit_nvtx() makes ("aten::mm, seq = 12, op_id = 3") are ops of the host. */
#include <ctype.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/array.h"
#include "core/base/limit.h"
#include "core/base/text.h"
#include "measured/layers.h"
#include "measured/reader.h"

/* What a hostile file may make SQLite do: so many instructions for each event of MOST_EVENTS,
 * looked at every so many; and the bytes of a value. */
enum { OF_EVENT = 64, PATIENCE = 100000, LONGEST = 1 << 20, GPUS = 1024 };

struct nsys_step {
    int64_t process;
    struct run_step step;
};

struct nsys_database {
    sqlite3 *db;
    const char *path;
    struct measured_run *run;
    size_t first;
    struct interner gpus; /* process and device of each rank, its globalPid first */
    double left, bytes;   /* instructions; of texts that were read */
    size_t steps;
    struct nsys_step *step; /* [steps] as they are found */
    struct launches launches;
    struct layers layers;
};

static int count_down(void *data)
{
    struct nsys_database *d = data;
    return (d->left -= PATIENCE) < 0;
}

/* Tables alone are read: a view can be without end, however small its file is. */
static int authorize(void *data, int action, const char *a, const char *b, const char *c,
                     const char *view)
{
    (void)data, (void)a, (void)b, (void)c;
    return view || action == SQLITE_RECURSIVE ? SQLITE_DENY : SQLITE_OK;
}

static enum status nsys_failed(const struct nsys_database *d)
{
    int code = sqlite3_errcode(d->db);
    char more[LIMIT_MORE];
    if (code == SQLITE_NOMEM)
        return error_set(STATUS_NOMEM, "out of memory");
    if (code == SQLITE_INTERRUPT)
        return error_set(STATUS_INVALID, "%s: timeout while reading%s", d->path,
                         limit_more(LIMIT_size, more));
    return error_set(STATUS_PARSE, "%s: %s", d->path,
                     code == SQLITE_AUTH ? "contains a view, expected tables only"
                                         : sqlite3_errmsg(d->db));
}

/* "file:" and the path with what means something in URIs escaped. */
static enum status nsys_open_database(struct nsys_database *d)
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
        st = d->db ? nsys_failed(d) : error_set(STATUS_NOMEM, "out of memory");
        goto out;
    }
    sqlite3_progress_handler(d->db, PATIENCE, count_down, d);
    sqlite3_limit(d->db, SQLITE_LIMIT_LENGTH, LONGEST);
    if (sqlite3_exec(d->db,
                     "PRAGMA trusted_schema=OFF; PRAGMA cache_size=-32768; "
                     "PRAGMA automatic_index=OFF",
                     NULL, NULL, NULL) != SQLITE_OK)
        st = nsys_failed(d);
    sqlite3_set_authorizer(d->db, authorize, NULL);
out:
    free(uri);
    return st;
}

/* Its columns are values: what is computed of them could take any time. */
static enum status has_table(struct nsys_database *d, const char *name, bool *out)
{
    enum status st = STATUS_OK;
    sqlite3_stmt *q = NULL;
    if (sqlite3_prepare_v2(d->db,
                           "SELECT (SELECT count(*) FROM pragma_table_xinfo(?1) WHERE hidden > 0) "
                           "FROM sqlite_master WHERE type='table' AND name=?1",
                           -1, &q, NULL) != SQLITE_OK)
        return nsys_failed(d);
    sqlite3_bind_text(q, 1, name, -1, SQLITE_STATIC);
    int code = sqlite3_step(q);
    *out = code == SQLITE_ROW;
    if (code == SQLITE_ROW && sqlite3_column_int(q, 0) > 0)
        st = error_set(STATUS_PARSE, "%s: %s has computed columns, which are unsupported", d->path,
                       name);
    else if (code != SQLITE_ROW && code != SQLITE_DONE)
        st = nsys_failed(d);
    sqlite3_finalize(q);
    return st;
}

/* A row is an event, and its texts count as bytes that are read. */
static enum status count_row(struct nsys_database *d, sqlite3_stmt *q)
{
    char more[LIMIT_MORE];
    for (int k = 0; k < sqlite3_column_count(q); k++)
        if (sqlite3_column_type(q, k) >= SQLITE_TEXT)
            d->bytes += sqlite3_column_bytes(q, k);
    if (d->bytes > (double)limit_bytes(MOST_RECORDED))
        return error_set(STATUS_INVALID, "%s: names and other texts take more than %g MiB%s",
                         d->path, limit_size(MOST_RECORDED), limit_more(LIMIT_size, more));
    return run_count(d->run, d->path);
}

/* Each row of a query of a table, if the file has that. */
static enum status each_row(struct nsys_database *d, const char *table, const char *sql,
                            enum status (*take)(struct nsys_database *d, sqlite3_stmt *q))
{
    enum status st = STATUS_OK;
    sqlite3_stmt *q = NULL;
    bool there;
    int code;
    TRY(has_table(d, table, &there));
    if (!there)
        return STATUS_OK;
    if (sqlite3_prepare_v2(d->db, sql, -1, &q, NULL) != SQLITE_OK) {
        st = nsys_failed(d);
        goto out;
    }
    while ((code = sqlite3_step(q)) == SQLITE_ROW) {
        TRY(count_row(d, q));
        TRY(take(d, q));
    }
    if (code != SQLITE_DONE)
        st = nsys_failed(d);
out:
    sqlite3_finalize(q);
    return st;
}

/* The rank of a GPU in a process. */
static enum status nsys_rank_of(struct nsys_database *d, int64_t process, int64_t device,
                                size_t *rank)
{
    const int64_t gpu[2] = {process, device};
    uint32_t known;
    bool fresh;
    PASS(intern(&d->gpus, gpu, sizeof gpu, &known, &fresh));
    if (known == GPUS)
        return error_set(STATUS_INVALID, "%s: more than %d GPUs", d->path, GPUS);
    *rank = d->first + known;
    return fresh ? run_add_rank(d->run, d->path, -1, device, rank) : STATUS_OK;
}

static int64_t process_of(const struct nsys_database *d, size_t rank)
{
    return ((const int64_t *)d->gpus.data)[2 * (rank - d->first)];
}

/* Correlation numbers are of a process, whose own number is above 24 bits for its threads. */
static int64_t launch_of(int64_t process, int64_t correlation)
{
    return (int64_t)((uint64_t)process >> 24 & INT32_MAX) << 32 | (correlation & UINT32_MAX);
}

/* Columns: start, end, device, stream, launch, process, bytes, name or kind of copy. */
static enum status nsys_take_activity(struct nsys_database *d, sqlite3_stmt *q, bool kernels)
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
    PASS(nsys_rank_of(d, sqlite3_column_int64(q, 5), sqlite3_column_int64(q, 2), &rank));
    return run_add_span(d->run, d->path, rank, name, &s);
}

static enum status take_kernel(struct nsys_database *d, sqlite3_stmt *q)
{
    return nsys_take_activity(d, q, true);
}

static enum status take_copy(struct nsys_database *d, sqlite3_stmt *q)
{
    return nsys_take_activity(d, q, false);
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

static int nsys_by_start(const void *a, const void *b)
{
    const struct nsys_step *x = a, *y = b;
    if (x->step.start_ns != y->step.start_ns)
        return x->step.start_ns < y->step.start_ns ? -1 : 1;
    return (x->step.number > y->step.number) - (x->step.number < y->step.number);
}

/* To the ranks of their processes, as they follow each other. */
static enum status add_steps(struct nsys_database *d)
{
    if (d->steps > 0)
        qsort(d->step, d->steps, sizeof *d->step, nsys_by_start);
    for (size_t r = d->first; r < d->run->ranks; r++) {
        struct run_rank *rank = &d->run->rank[r];
        for (size_t i = 0; i < d->steps; i++) {
            const struct run_step *s = &d->step[i].step;
            if (d->step[i].process != process_of(d, r))
                continue;
            if (rank->steps > 0 && rank->step[rank->steps - 1].number >= s->number)
                d->run->repeated++; /* by another thread, or a range within */
            else
                PASS(run_add_step(d->run, d->path, rank, s));
        }
    }
    return STATUS_OK;
}

/* A range that is no step. */
static enum status take_range(struct nsys_database *d, char *name, struct layer_op *o)
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
static enum status take_marked(struct nsys_database *d, sqlite3_stmt *q)
{
    enum status st;
    char *text = NULL;
    const char *name = (const char *)sqlite3_column_text(q, 3);
    int64_t thread = sqlite3_column_int64(q, 2);
    struct nsys_step s = {thread & ~INT64_C(0xFFFFFF),
                          {0, sqlite3_column_int64(q, 0), sqlite3_column_int64(q, 1)}};
    if (!name || s.step.start_ns < 0 || s.step.end_ns >= INT64_MAX / 4)
        return STATUS_OK;
    if (is_step(name, &s.step.number)) {
        PASS(ARRAY_ROOM(d->step, d->steps));
        d->step[d->steps++] = s;
        return STATUS_OK;
    }
    if (d->run->layers == LAYERS_NONE)
        return STATUS_OK;
    TRY(text_copy(name, &text));
    st = take_range(d, text, &(struct layer_op){-1, thread, s.step.start_ns, s.step.end_ns, 0});
out:
    free(text);
    return st;
}

/* Which thread launched what, when. */
static enum status take_launch(struct nsys_database *d, sqlite3_stmt *q)
{
    int64_t thread = sqlite3_column_int64(q, 1);
    return launches_add(&d->launches, launch_of(thread, sqlite3_column_int64(q, 2)), thread,
                        sqlite3_column_int64(q, 0));
}

static enum status find_layers(struct nsys_database *d)
{
    PASS(each_row(d, "CUPTI_ACTIVITY_KIND_RUNTIME",
                  "SELECT start, globalTid, correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME",
                  take_launch));
    if (d->launches.n == 0)
        return error_set(STATUS_INVALID,
                         "%s: kernel launches were not recorded, so kernels have no layers",
                         d->path);
    for (size_t r = d->first; r < d->run->ranks; r++) {
        struct run_rank *rank = &d->run->rank[r];
        PASS(launches_find(&d->launches, rank->span, rank->spans));
        PASS(layers_find(&d->layers, &d->launches, d->run, d->path, rank->step, rank->steps,
                         rank->span, rank->spans));
    }
    return STATUS_OK;
}

/* A rank while the file's are put in order. */
struct ordered {
    int64_t device, process;
    struct run_rank rank;
};

static int by_device(const void *a, const void *b)
{
    const struct ordered *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return (x->process > y->process) - (x->process < y->process);
}

/* Rows stand in no order, so the first one's GPU is not rank 0: by device, then by process. */
static enum status order_ranks(struct nsys_database *d)
{
    size_t n = d->run->ranks - d->first;
    struct ordered *of = NULL;
    PASS(ARRAY_NEW(of, n));
    for (size_t r = 0; r < n; r++)
        of[r] = (struct ordered){d->run->rank[d->first + r].device, process_of(d, d->first + r),
                                 d->run->rank[d->first + r]};
    if (n > 0)
        qsort(of, n, sizeof *of, by_device);
    for (size_t r = 0; r < n; r++)
        d->run->rank[d->first + r] = of[r].rank;
    d->run->by_device |= n > 1;
    free(of);
    return STATUS_OK;
}

static enum status read_tables(struct nsys_database *d)
{
    bool names;
    PASS(has_table(d, "StringIds", &names));
    PASS(each_row(d, "CUPTI_ACTIVITY_KIND_KERNEL",
                  "SELECT k.start, k.end, k.deviceId, k.streamId, k.correlationId, k.globalPid, 0, "
                  "s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k LEFT JOIN StringIds s "
                  "ON s.id = k.demangledName",
                  take_kernel));
    PASS(
        each_row(d, "CUPTI_ACTIVITY_KIND_MEMCPY",
                 "SELECT start, end, deviceId, streamId, correlationId, globalPid, bytes, copyKind "
                 "FROM CUPTI_ACTIVITY_KIND_MEMCPY",
                 take_copy));
    PASS(each_row(d, "CUPTI_ACTIVITY_KIND_MEMSET",
                  "SELECT start, end, deviceId, streamId, correlationId, globalPid, bytes, -1 "
                  "FROM CUPTI_ACTIVITY_KIND_MEMSET",
                  take_copy));
    if (d->run->ranks == d->first)
        return error_set(STATUS_INVALID,
                         "%s: no GPU activity found. Record it with nsys profile --trace=cuda",
                         d->path);
    PASS(each_row(d, "NVTX_EVENTS",
                  "SELECT e.start, e.end, e.globalTid, coalesce(e.text, s.value) "
                  "FROM NVTX_EVENTS e LEFT JOIN StringIds s ON s.id = e.textId "
                  "WHERE e.end > e.start",
                  take_marked));
    PASS(add_steps(d));
    return d->run->layers == LAYERS_NONE ? STATUS_OK : find_layers(d);
}

static enum status nsys_read(const char *path, struct bytes *b, struct measured_run *run)
{
    enum status st;
    struct nsys_database d = {.path = path,
                              .run = run,
                              .first = run->ranks,
                              .gpus.size = 2 * sizeof(int64_t),
                              .left = limit_size(MOST_EVENTS) * OF_EVENT};
    (void)b; /* SQLite reads the file itself */
    TRY(nsys_open_database(&d));
    TRY(read_tables(&d));
    TRY(order_ranks(&d));
out:
    sqlite3_close(d.db);
    launches_free(&d.launches);
    layers_free(&d.layers);
    interner_free(&d.gpus);
    free(d.step);
    return st;
}

static bool nsys_recognises(const char *head, size_t length)
{
    return length >= 16 && memcmp(head, "SQLite format 3", 16) == 0;
}

const struct reader reader_nsys = {
    .name = "nsys",
    .summary = "Nsight Systems: nsys export --type sqlite",
    .recognises = nsys_recognises,
    .read = nsys_read,
};
