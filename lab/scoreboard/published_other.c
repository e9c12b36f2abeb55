/* Reads measured runs in the formats of two papers: the table of vTrain (Bang et al., MICRO 2024)
 * and the plans of Sailor (Strati et al., SOSP 2025). What the files leave unsaid is the same for
 * all of their rows, and stands here. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "lab/scoreboard/published.h"

/* ---- vTrain: a GPT trained by Megatron-DeepSpeed on one node of A100 */

static const char vtrain_head[] = "# GPUs,global batch,micro batch,hidden size,attention heads,";

/* A mark of byte order may stand before it. */
bool published_is_vtrain(const char *text)
{
    text += strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    return strncmp(text, vtrain_head, sizeof vtrain_head - 1) == 0;
}

enum {
    VTRAIN_GPUS,
    VTRAIN_BATCH,
    VTRAIN_MICRO,
    VTRAIN_HIDDEN,
    VTRAIN_HEADS,
    VTRAIN_LAYERS,
    VTRAIN_SEQ,
    VTRAIN_TP,
    VTRAIN_DP,
    VTRAIN_PP,
    VTRAIN_MS,
    VTRAIN_COLUMNS
};

/* Numbers with commas between; false: they are not as many, or none. */
static bool published_other_read_line(const char *line, double value[VTRAIN_COLUMNS])
{
    for (size_t i = 0; i < VTRAIN_COLUMNS; i++) {
        char *end;
        value[i] = strtod(line, &end);
        bool last = i + 1 == VTRAIN_COLUMNS;
        if (end == line || !(value[i] > 0 && value[i] <= 1 << 24) ||
            (last ? !strchr("\r\n", *end) : *end != ','))
            return false;
        line = end + 1;
    }
    return true;
}

/* The file does not say what was computed again: nothing, unless memory demands it. Had it been
 * everything, its widest layers alone (2048, 8 samples, one shard: 16 ms, out of iterations of all
 * depths) would take 4 times 0.9 Tflop of products and 6 ms of passes over memory: products of 350
 * Tflop/s on a GPU whose peak is 312. */
static enum status add_vtrain(struct published *p, size_t line, const double *v)
{
    char id[64];
    struct published_row *row = published_add(p, "vtrain");
    if (!row)
        return STATUS_NOMEM;
    snprintf(id, sizeof id, "vtrain/%zu", line);
    row->id = arena_text(&p->memory, id);
    row->config = (struct published_config){.source = row->set,
                                            .name = "GPT",
                                            .layers = (int64_t)v[VTRAIN_LAYERS],
                                            .hidden = (int64_t)v[VTRAIN_HIDDEN],
                                            .heads = (int64_t)v[VTRAIN_HEADS],
                                            .ffn = 4 * (int64_t)v[VTRAIN_HIDDEN],
                                            .vocab = 51200,
                                            .seq = (int64_t)v[VTRAIN_SEQ],
                                            .gated = SAID_NO,
                                            .tied = SAID_YES,
                                            .gpu = "A100",
                                            .dtype = "fp16",
                                            .gpus = (int64_t)v[VTRAIN_GPUS],
                                            .gpus_per_node = 8,
                                            .tp = (int64_t)v[VTRAIN_TP],
                                            .pp = (int64_t)v[VTRAIN_PP],
                                            .vp = 1,
                                            .micro_batch = (int64_t)v[VTRAIN_MICRO],
                                            .global_batch = (int64_t)v[VTRAIN_BATCH],
                                            .zero = "none"};
    row->measured.step_s = v[VTRAIN_MS] / 1e3;
    return row->id ? STATUS_OK : STATUS_NOMEM;
}

enum status published_parse_vtrain(const char *path, const char *text, struct published *p)
{
    double value[VTRAIN_COLUMNS];
    size_t line = 1;
    for (const char *at = strchr(text, '\n'); at && at[1]; at = strchr(at + 1, '\n')) {
        line++;
        if (at[1] == '\n' || at[1] == '\r')
            continue;
        if (!published_other_read_line(at + 1, value))
            return error_set(STATUS_PARSE, "%s:%zu:1: expected %d positive numbers", path, line,
                             VTRAIN_COLUMNS);
        PASS(add_vtrain(p, line, value));
    }
    return STATUS_OK;
}

/* ---- Sailor: OPT-350M, trained by Megatron-DeepSpeed on nodes of four GH200 (Alps) */

enum { SAILOR_STAGES = 1024, SAILOR_LAYERS = 26, SAILOR_NODE = 4 };

/* Layer 0 is the embedding and the last one the head. */
static enum status read_cut(const struct json_at *stages, struct published *p,
                            struct published_config *c)
{
    size_t layers, all = 0;
    PASS(json_get_array(stages, SAILOR_STAGES, &c->cuts));
    PASS(ARENA_NEW(&p->memory, c->cut, c->cuts));
    for (size_t i = 0; i < c->cuts; i++) {
        struct json_at stage = json_item(stages, i);
        PASS(json_get_array(&stage, SAILOR_LAYERS, &layers));
        all += layers;
        c->cut[i] = (int64_t)layers - (i == 0) - (i + 1 == c->cuts);
    }
    return all == SAILOR_LAYERS && c->cuts > 0
               ? STATUS_OK
               : json_error(stages, "expected %d layers", SAILOR_LAYERS);
}

enum status published_add_sailor(const struct json_document *d, const char *path,
                                 struct published *p)
{
    struct json_at root = json_root(d), list, stages;
    const char *base = strrchr(path, '/');
    double step_s = 0, bytes = 0;
    int64_t batch = 0, micro = 0, nodes = 0;
    size_t n;
    PASS(json_need_real(&root, "real", 1e-9, 1e9, &step_s));
    PASS(json_need_real(&root, "max_mem", 0, 1e15, &bytes));
    PASS(json_need_integer(&root, "gbs", 1, PUBLISHED_BATCH, &batch));
    PASS(json_need_integer(&root, "mbs", 1, PUBLISHED_BATCH, &micro));
    PASS(json_need_integer(&root, "N", 1, PUBLISHED_GPUS / SAILOR_NODE, &nodes));
    PASS(json_field(&root, "pipeline_list", &list));
    PASS(json_get_array(&list, 1, &n));
    struct json_at pipeline = json_item(&list, 0);
    PASS(json_field(&pipeline, "layers_per_stage", &stages));
    struct published_row *row = published_add(p, "sailor");
    if (!row)
        return STATUS_NOMEM;
    row->id = arena_text(&p->memory, base ? base + 1 : path);
    row->config = (struct published_config){.source = row->set,
                                            .name = "OPT-350M",
                                            .profile = "OPT-350",
                                            .layers = 24,
                                            .hidden = 1024,
                                            .heads = 16,
                                            .ffn = 4096,
                                            .vocab = 50272,
                                            .seq = 2048,
                                            .gated = SAID_NO,
                                            .tied = SAID_YES,
                                            .gpu = "GH200",
                                            .dtype = "fp16",
                                            .gpus = nodes * SAILOR_NODE,
                                            .gpus_per_node = SAILOR_NODE,
                                            .tp = SAILOR_NODE,
                                            .vp = 1,
                                            .micro_batch = micro,
                                            .global_batch = batch,
                                            .zero = "none",
                                            .recompute = "none"};
    row->measured.step_s = step_s;
    row->measured.memory_gib = bytes / 0x1p30;
    PASS(read_cut(&stages, p, &row->config));
    row->config.pp = (int64_t)row->config.cuts;
    return row->id ? STATUS_OK : STATUS_NOMEM;
}
