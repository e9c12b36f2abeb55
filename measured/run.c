/* Runs as lists: adding to them, and what names of kernels say. */
#include "measured/run.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/array.h"
#include "core/base/limit.h"
#include "core/base/text.h"

const char *const span_kind_names[SPAN_KINDS] = {
    [SPAN_ALLREDUCE] = "all-reduce",
    [SPAN_ALLGATHER] = "all-gather",
    [SPAN_REDUCESCATTER] = "reduce-scatter",
    [SPAN_ALLTOALL] = "all-to-all",
    [SPAN_SENDRECV] = "send",
    [SPAN_BROADCAST] = "broadcast",
    [SPAN_REDUCE] = "reduce",
    [SPAN_OTHER] = "other",
    [SPAN_HOST_TO_DEVICE] = "host to device",
    [SPAN_DEVICE_TO_HOST] = "device to host",
    [SPAN_DEVICE_TO_DEVICE] = "device to device",
    [SPAN_PEER_TO_PEER] = "peer to peer",
    [SPAN_FILL] = "fill",
    [SPAN_COPY_OTHER] = "other copy",
};

/* ---- lists */

enum status run_count(struct measured_run *run, const char *path)
{
    char more[LIMIT_MORE];
    double most = limit_size(MOST_EVENTS);
    if ((double)run->events++ < most)
        return STATUS_OK;
    return error_set(STATUS_INVALID, "%s: more than %.0f events; record only a few steps%s", path,
                     most, limit_more(LIMIT_size, more));
}

enum status run_add_rank(struct measured_run *run, const char *path, int64_t rank, int64_t device,
                         size_t *index)
{
    struct run_rank r = {.rank = rank, .device = device};
    if (run->ranks == RUN_RANKS)
        return error_set(STATUS_INVALID, "%s: more than %d ranks", path, RUN_RANKS);
    PASS(ARRAY_ROOM(run->rank, run->ranks));
    run->rank[run->ranks] = r;
    *index = run->ranks++;
    return STATUS_OK;
}

enum status run_add_name(struct measured_run *run, const char *path, const char *name,
                         uint32_t *number)
{
    if (interned_at(&run->names, run->names.n) > RUN_NAMES)
        return error_set(STATUS_INVALID, "%s: distinct names take more than %d bytes", path,
                         RUN_NAMES);
    return intern(&run->names, name, strlen(name), number, NULL);
}

enum status run_add_span(struct measured_run *run, const char *path, size_t rank, const char *name,
                         const struct span *span)
{
    struct run_rank *r = &run->rank[rank];
    struct span s = *span;
    if (s.end_ns < s.start_ns) {
        run->negative++;
        return STATUS_OK;
    }
    PASS(run_add_name(run, path, name, &s.name));
    PASS(ARRAY_ROOM(r->span, r->spans));
    r->span[r->spans++] = s;
    return STATUS_OK;
}

enum status run_add_step(struct measured_run *run, const char *path, struct run_rank *rank,
                         const struct run_step *step)
{
    PASS(run_count(run, path));
    PASS(ARRAY_ROOM(rank->step, rank->steps));
    rank->step[rank->steps++] = *step;
    return STATUS_OK;
}

enum status run_add_line(struct measured_run *run, const struct run_line *line)
{
    PASS(ARRAY_ROOM(run->line, run->lines));
    run->line[run->lines++] = *line;
    return STATUS_OK;
}

void measured_run_free(struct measured_run *run)
{
    for (size_t r = 0; r < run->ranks; r++) {
        free(run->rank[r].name);
        free(run->rank[r].span);
        free(run->rank[r].step);
    }
    free(run->rank);
    free(run->line);
    interner_free(&run->names);
    *run = (struct measured_run){0};
}

/* ---- names */

/* They are kept one behind the other, without an end. */
const char *run_name(const struct measured_run *run, uint32_t name, char *text, size_t size)
{
    size_t from = interned_at(&run->names, name), to = run->names.end[name];
    snprintf(text, size, "%.*s", (int)(to - from), (const char *)run->names.data + from);
    return text;
}

/* Letters and digits alone, in lower case: "_allgather_base" becomes "allgatherbase". */
static void plain(const char *name, char *out, size_t size)
{
    size_t n = 0;
    for (; *name && n + 1 < size; name++)
        if (isalnum((unsigned char)*name))
            out[n++] = (char)tolower((unsigned char)*name);
    out[n] = '\0';
}

static bool run_rank_has(const char *text, const char *word)
{
    return strstr(text, word) != NULL;
}

bool span_communicates(const char *kernel)
{
    char text[256];
    plain(kernel, text, sizeof text);
    return run_rank_has(text, "nccl") || run_rank_has(text, "rccl") || run_rank_has(text, "msccl");
}

struct name_word {
    const char *text;
    uint8_t meaning;
};

/* The first word that is in the text decides: longer ones stand before those that are part of
 * them. */
static uint8_t meaning_of(const char *name, const struct name_word *word, size_t n,
                          uint8_t otherwise)
{
    char text[256];
    plain(name, text, sizeof text);
    for (size_t i = 0; i < n; i++)
        if (run_rank_has(text, word[i].text))
            return word[i].meaning;
    return otherwise;
}

enum span_kind span_kind_of(const char *name)
{
    static const struct name_word word[] = {
        {"allreduce", SPAN_ALLREDUCE}, {"reducescatter", SPAN_REDUCESCATTER},
        {"allgather", SPAN_ALLGATHER}, {"alltoall", SPAN_ALLTOALL},
        {"all2all", SPAN_ALLTOALL},    {"sendrecv", SPAN_SENDRECV},
        {"broadcast", SPAN_BROADCAST}, {"reduce", SPAN_REDUCE},
        {"send", SPAN_SENDRECV},       {"recv", SPAN_SENDRECV},
        {"coalesced", SPAN_OTHER},
    };
    return meaning_of(name, word, sizeof word / sizeof *word, SPAN_OTHER);
}

enum span_kind span_copy_of(const char *name)
{
    static const struct name_word word[] = {
        {"memset", SPAN_FILL},           {"fill", SPAN_FILL},
        {"htod", SPAN_HOST_TO_DEVICE},   {"hosttodevice", SPAN_HOST_TO_DEVICE},
        {"dtoh", SPAN_DEVICE_TO_HOST},   {"devicetohost", SPAN_DEVICE_TO_HOST},
        {"ptop", SPAN_PEER_TO_PEER},     {"peertopeer", SPAN_PEER_TO_PEER},
        {"dtod", SPAN_DEVICE_TO_DEVICE}, {"devicetodevice", SPAN_DEVICE_TO_DEVICE},
    };
    return meaning_of(name, word, sizeof word / sizeof *word, SPAN_COPY_OTHER);
}

uint8_t span_purpose_of(const char *group)
{
    static const struct name_word word[] = {
        {"pipeline", FOR_PIPELINE}, {"meshpp", FOR_PIPELINE}, {"expert", FOR_EXPERTS},
        {"meshep", FOR_EXPERTS},    {"context", FOR_CONTEXT}, {"meshcp", FOR_CONTEXT},
        {"tensor", FOR_TENSOR},     {"meshtp", FOR_TENSOR},   {"shard", FOR_SHARDS},
        {"fsdp", FOR_SHARDS},       {"embedding", FOR_TIES},  {"data", FOR_DATA},
        {"meshdp", FOR_DATA},       {"replicate", FOR_DATA},
    };
    return meaning_of(group, word, sizeof word / sizeof *word, OP_PURPOSES);
}

int64_t span_type_bytes(const char *type)
{
    static const struct name_word word[] = {
        {"bfloat16", 2}, {"half", 2},  {"float8", 1}, {"float16", 2}, {"float64", 8},
        {"double", 8},   {"float", 4}, {"int64", 8},  {"long", 8},    {"int8", 1},
        {"byte", 1},     {"char", 1},  {"bool", 1},   {"short", 2},   {"int", 4},
    };
    return meaning_of(type, word, sizeof word / sizeof *word, 0);
}
