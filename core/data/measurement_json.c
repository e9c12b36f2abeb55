/* Measurements as JSON: tables of fields, and what is derived when written. */
#include "core/data/measurement.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/path.h"
#include "core/data/breakdown.h"

static const char measurement_format[] = "foreline-measurement";
enum { MEASUREMENT_VERSION = 1, MAX_ITEMS = 1 << 24 };

/* ---- ranks */

static enum status check_purposes(const struct json_at *exposed)
{
    size_t k = 0;
    if (json_members(exposed) == 0)
        return STATUS_OK;
    for (struct json_at at = json_first(exposed); at.key; at = json_next(&at)) {
        for (k = 0; k < OP_PURPOSES && strcmp(op_purpose_names[k], at.key) != 0;)
            k++;
        if (k == OP_PURPOSES)
            return json_error(&at, "unknown purpose of communication; known: pipeline, data, ties, "
                                   "shards, tensor, experts, context, host, norm");
    }
    return STATUS_OK;
}

/* By purpose; purposes that are absent took no time. */
static enum status read_exposed(const struct json_at *object, void *into)
{
    struct measured_rank *rank = into;
    struct json_at at;
    PASS(json_optional(object, "exposed_s", &at));
    PASS(check_purposes(&at));
    for (size_t k = 0; at.value && k < OP_PURPOSES; k++)
        PASS(json_may_real(&at, op_purpose_names[k], 0, DBL_MAX, &rank->exposed_s[k]));
    return STATUS_OK;
}

static void put_exposed(struct json_writer *w, const double *exposed_s)
{
    json_open_object(w, "exposed_s", true);
    for (size_t k = 0; k < OP_PURPOSES; k++)
        if (exposed_s[k] > 0)
            json_put_real(w, op_purpose_names[k], exposed_s[k]);
    json_close(w);
}

static void write_exposed(struct json_writer *w, const void *from)
{
    put_exposed(w, ((const struct measured_rank *)from)->exposed_s);
}

#define RANK(member) JSON_MEMBER(struct measured_rank, member)
static const struct json_row peak_rows[] = {
    {"weight_bytes", RANK(weight_bytes)},   {"gradient_bytes", RANK(gradient_bytes)},
    {"state_bytes", RANK(state_bytes)},     {"stash_bytes", RANK(stash_bytes)},
    {"scratch_bytes", RANK(scratch_bytes)}, {0},
};
static const struct json_row rank_rows[] = {
    {"name", RANK(name), FIELD_NEED},
    {"host_bytes", RANK(host_bytes), FIELD_SPARE},
    {"busy_s", RANK(busy_s), FIELD_NEED},
    {"exposed_comm_s", RANK(exposed_comm_s), FIELD_NEED},
    {"idle_s", RANK(idle_s), FIELD_NEED},
    {"update_s", RANK(update_s)},
    {"exposed_s", .read = read_exposed, .write = write_exposed},
    {"peak_bytes", RANK(peak_bytes), FIELD_NEED},
    {"peak_at", RANK(peak_at), FIELD_SPARE},
    {"stage", RANK(stage)},
    {"peak_of", FIELD_OBJECT, .rows = peak_rows, .flat = true},
    {"memory_bytes", RANK(memory_bytes), FIELD_SPARE},
    {"loss", RANK(loss), FIELD_SPARE, .nulls = true, .min = -DBL_MAX,
     .count = offsetof(struct measured_rank, losses)},
    {0},
};
#undef RANK

/* ---- links and invocations of collectives */

static const struct json_row link_rows[] = {
    {"name", JSON_MEMBER(struct measured_link, name), FIELD_NEED},
    {"bytes", JSON_MEMBER(struct measured_link, bytes), FIELD_NEED},
    {"busy_fraction", JSON_MEMBER(struct measured_link, busy_fraction), FIELD_NEED},
    {0},
};

/* Purpose and kind are bytes in the struct, names in the file. */
static enum status measurement_json_read_kind(const struct json_at *object, void *into)
{
    struct measured_call *call = into;
    size_t purpose = 0, kind = 0;
    PASS(json_may_choice(object, "for", op_purpose_names, OP_PURPOSES, &purpose));
    PASS(json_may_choice(object, "kind", measured_call_names, MEASURED_CALLS, &kind));
    call->purpose = (uint8_t)purpose;
    call->kind = measured_call_kinds[kind];
    return STATUS_OK;
}

static void measurement_json_write_kind(struct json_writer *w, const void *from)
{
    const struct measured_call *call = from;
    json_put_string(w, "for", op_purpose_names[call->purpose]);
    json_put_string(w, "kind", measured_call_name(call));
}

/* Derived; not read back. */
static void write_bandwidths(struct json_writer *w, const void *from)
{
    json_put_real(w, "algbw_Bps", measured_call_algbw(from));
    json_put_real(w, "busbw_Bps", measured_call_busbw(from));
}

#define CALL(member) JSON_MEMBER(struct measured_call, member)
static const struct json_row call_rows[] = {
    {"kind", .read = measurement_json_read_kind, .write = measurement_json_write_kind,
     .also = "for"},
    {"members", CALL(members), FIELD_NEED, .min = 1},
    {"bytes", CALL(bytes), FIELD_NEED},
    {"calls", CALL(calls), FIELD_NEED},
    {"total_s", CALL(seconds), FIELD_NEED},
    {"algorithm", CALL(algorithm), FIELD_SPARE},
    {"algbw_Bps", .write = write_bandwidths, .also = "busbw_Bps"},
    {0},
};
#undef CALL

/* ---- sites */

static enum status read_site(const struct json_at *object, void *into)
{
    struct measured_site *site = into;
    size_t phase = 0, kind = MEASURED_CALLS;
    PASS(json_may_choice(object, "phase", op_phase_names, OP_PHASES, &phase));
    PASS(json_may_choice(object, "collective", measured_call_names, MEASURED_CALLS, &kind));
    site->phase = (uint8_t)phase;
    site->kind = kind < MEASURED_CALLS ? measured_call_kinds[kind] : (uint8_t)OP_COMPUTE;
    return STATUS_OK;
}

static void write_site(struct json_writer *w, const void *from)
{
    const struct measured_site *site = from;
    json_put_string(w, "phase", op_phase_names[site->phase]);
    if (site->kind != OP_COMPUTE)
        json_put_string(w, "collective", measured_kind_name(site->kind));
}

#define SITE(member) JSON_MEMBER(struct measured_site, member)
static const struct json_row site_rows[] = {
    {"module", SITE(module), FIELD_NEED},
    {"phase", .read = read_site, .write = write_site, .also = "collective"},
    {"members", SITE(members)},
    {"calls", SITE(calls), FIELD_NEED},
    {"bytes", SITE(bytes)},
    {"seconds", SITE(seconds), FIELD_NEED},
    {0},
};
#undef SITE

/* ---- experts */

#define EXPERTS(member) JSON_MEMBER(struct measured_experts, member)
static const struct json_row expert_rows[] = {
    {"op", EXPERTS(op), FIELD_NEED},
    {"imbalance", EXPERTS(imbalance), FIELD_NEED},
    {"rows", EXPERTS(rows), .count = offsetof(struct measured_experts, experts)},
    {"busiest_of_2_4_8_ranks", EXPERTS(busiest),
     .count = offsetof(struct measured_experts, spreads)},
    {0},
};
#undef EXPERTS

/* ---- GPUs */

#define GPU(member) JSON_MEMBER(struct measured_gpu, member)
static const struct json_row gpu_rows[] = {
    {"rank", GPU(rank), FIELD_NEED},
    {"machine", GPU(machine), FIELD_SPARE},
    {"index", GPU(index)},
    {"name", GPU(name), FIELD_NEED},
    {"uuid", GPU(uuid), FIELD_SPARE},
    {"bus", GPU(bus), FIELD_SPARE},
    {"memory_bytes", GPU(memory_bytes), FIELD_SPARE},
    {"peers", GPU(peers), FIELD_SPARE},
    {0},
};
#undef GPU
#define SOFTWARE(member) JSON_MEMBER(struct measurement, software.member), FIELD_SPARE
static const struct json_row software_rows[] = {
    {"driver", SOFTWARE(driver)},     {"cuda_driver", SOFTWARE(cuda_driver)},
    {"cuda", SOFTWARE(cuda)},         {"cublas", SOFTWARE(cublas)},
    {"nccl", SOFTWARE(nccl)},         {"blas", SOFTWARE(blas)},
    {"settings", SOFTWARE(settings)}, {0},
};
#undef SOFTWARE

#define EXPECTED(member) JSON_MEMBER(struct measurement, expected.member), FIELD_SPARE
static const struct json_row expected_rows[] = {
    {"median", EXPECTED(median)},
    {"nine_in_ten", EXPECTED(nine_in_ten)},
    {"runs", EXPECTED(runs)},
    {"of", EXPECTED(of)},
    {0},
};
#undef EXPECTED

#define EXPECTED(member) JSON_MEMBER(struct measurement, expected_memory.member), FIELD_SPARE
static const struct json_row memory_rows[] = {
    {"median", EXPECTED(median)},
    {"runs", EXPECTED(runs)},
    {0},
};
#undef EXPECTED

/* ---- the whole */

/* Whether the iteration, or its ranks, were simulated in part and the rest follows. */
static void write_folded(struct json_writer *w, const void *from)
{
    const struct measurement *m = from;
    if (m->microbatches > 0)
        json_put_bool(w, "folded", m->simulated < m->microbatches || m->ranks_simulated > 0);
}

/* Only where the memory of a device is known. */
static void write_fits(struct json_writer *w, const void *from)
{
    const struct measurement *m = from;
    if (measurement_fullest(m) < m->ranks)
        json_put_bool(w, "fits", measurement_overfull(m) == 0);
}

/* For people and other programs; what is read back follows from the ranks. */
static void write_breakdown(struct json_writer *w, const void *from)
{
    struct breakdown b = breakdown_of(from);
    char text[BREAKDOWN_TEXT];
    json_open_object(w, "breakdown", true);
    json_put_real(w, "compute_s", b.compute_s);
    put_exposed(w, b.exposed_s);
    json_put_real(w, "optimizer_s", b.optimizer_s);
    json_put_real(w, "bubble_s", b.bubble_s);
    json_close(w);
    json_put_string(w, "bottleneck", breakdown_bottleneck(from, text));
}

static enum status read_warnings(const struct json_at *root, void *into)
{
    struct json_at at;
    size_t n = 0;
    PASS(json_optional(root, "warnings", &at));
    if (at.value)
        PASS(json_get_array(&at, MAX_ITEMS, &n));
    for (size_t k = 0; k < n; k++) {
        struct json_at item = json_item(&at, k);
        const char *text;
        PASS(json_get_string(&item, &text));
        PASS(measurement_warn(into, "%s", text));
    }
    return STATUS_OK;
}

static void write_warnings(struct json_writer *w, const void *from)
{
    const struct measurement *m = from;
    json_open_array(w, "warnings", false);
    for (size_t k = 0; k < m->warnings; k++)
        json_put_string(w, NULL, m->warning[k]);
    json_close(w);
}

#define FIELD(member) JSON_MEMBER(struct measurement, member)
#define LIST(member, n, table)                                                                     \
    FIELD(member), .count = offsetof(struct measurement, n), .rows = table,                        \
                   .size = sizeof *((struct measurement *)0)->member, .flat = true
static const struct json_row rows[] = {
    {"engine", FIELD(engine), FIELD_NEED},
    {"framework", FIELD(framework), FIELD_SPARE},
    {"plan", FIELD(plan), FIELD_SPARE},
    {"plan_sha256", FIELD(plan_sha256), FIELD_SPARE},
    {"model", FIELD(model), FIELD_SPARE},
    {"platform", FIELD(platform), FIELD_SPARE},
    {"iteration_s", FIELD(iteration_s), FIELD_NEED},
    {"iterations_s", FIELD(iterations_s), .count = offsetof(struct measurement, iterations)},
    {"samples_per_s", FIELD(samples_per_s), FIELD_NEED},
    {"tokens_per_s", FIELD(tokens_per_s), FIELD_NEED},
    {"bubble_fraction", FIELD(bubble_fraction), FIELD_NEED},
    {"flops", FIELD(flops), FIELD_SPARE},
    {"peak_flops", FIELD(peak_flops), FIELD_SPARE},
    {"mfu", FIELD(mfu), FIELD_SPARE},
    {"hfu", FIELD(hfu), FIELD_SPARE},
    {"causal_mask_subtracted", FIELD(mask_subtracted), FIELD_SPARE},
    {"watts", FIELD(watts), FIELD_SPARE},
    {"price_per_hour", FIELD(price_per_hour), FIELD_SPARE},
    {"cpu_s", FIELD(cpu_s), FIELD_NEED},
    {"microbatches", FIELD(microbatches), FIELD_SPARE},
    {"microbatches_simulated", FIELD(simulated), FIELD_SPARE},
    {"folded", .write = write_folded},
    {"not_folded", FIELD(not_folded), FIELD_SPARE},
    {"ranks_simulated", FIELD(ranks_simulated), FIELD_SPARE},
    {"ranks_not_folded", FIELD(ranks_not_folded), FIELD_SPARE},
    {"fits", .write = write_fits},
    {"breakdown", .write = write_breakdown, .also = "bottleneck"},
    {"ranks", LIST(rank, ranks, rank_rows), .presence = FIELD_NEED},
    {"links", LIST(link, links, link_rows)},
    {"collectives", LIST(call, calls, call_rows)},
    {"modules", LIST(site, sites, site_rows), .presence = FIELD_SPARE},
    {"experts", LIST(expert, expert_ops, expert_rows), .presence = FIELD_SPARE},
    {"loss", FIELD(loss), FIELD_SPARE, .nulls = true, .min = -DBL_MAX,
     .count = offsetof(struct measurement, losses)},
    {"precision_at_1", FIELD(precision_1), FIELD_SPARE,
     .count = offsetof(struct measurement, precisions_1)},
    {"precision_at_5", FIELD(precision_5), FIELD_SPARE,
     .count = offsetof(struct measurement, precisions_5)},
    {"forward_only", FIELD(forward_only), FIELD_SPARE},
    {"captured", FIELD(captured), FIELD_SPARE},
    {"parameters_sha256", FIELD(parameters_sha256), FIELD_SPARE},
    {"gpus", LIST(gpu, gpus, gpu_rows), .presence = FIELD_SPARE},
    {"software", FIELD_OBJECT, .presence = FIELD_SPARE, .rows = software_rows},
    {"expected_error", FIELD_OBJECT, .presence = FIELD_SPARE, .rows = expected_rows, .flat = true},
    {"expected_memory_error", FIELD_OBJECT, .presence = FIELD_SPARE, .rows = memory_rows,
     .flat = true},
    {"warnings", .read = read_warnings, .write = write_warnings},
    {0},
};

enum status measurement_read(const char *path, struct measurement *out)
{
    enum status st;
    struct json_document d = {0};
    struct measurement m = {0};
    TRY(json_read(path, measurement_format, MEASUREMENT_VERSION, &d));
    struct json_at root = json_root(&d);
    TRY(json_check_keys(&root, "", JSON_TABLES(rows)));
    TRY(json_rows_read(&root, rows, &m));
    MOVE(out, m);
out:
    measurement_free(&m);
    json_document_free(&d);
    return st;
}

void measurement_print(const struct measurement *m, const struct provenance *by, FILE *to)
{
    struct json_writer w = {.stream = to};
    json_put_document(&w, measurement_format, MEASUREMENT_VERSION, by, rows, m);
}

/* An absolute path of the plan becomes one relative to the measurement. */
enum status measurement_write(const struct measurement *m, const char *path,
                              const struct provenance *by)
{
    enum status st = STATUS_OK;
    struct measurement as_written = *m;
    char *plan = NULL;
    if (m->plan && *m->plan == '/') {
        TRY(path_reference(m->plan, path, &plan));
        as_written.plan = plan;
    }
    TRY(json_write(path, measurement_format, MEASUREMENT_VERSION, by, rows, &as_written));
out:
    free(plan);
    return st;
}

void measurement_free(struct measurement *m)
{
    json_rows_free(rows, m);
    for (size_t k = 0; k < m->warnings; k++)
        free(m->warning[k]);
    free(m->warning);
    *m = (struct measurement){0};
}
