/* What the texts of a published row mean: who trained, on which GPU and network, with which
 * numbers, what was sharded and what was computed again. Everything is a table of words. */
#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/text.h"
#include "core/strategy/constants.h"
#include "lab/scoreboard/published.h"
#include "topologies/catalogue.h"

/* Is the word in the text, whatever the case? */
static bool facts_says(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (; text && *text; text++) {
        size_t k = 0;
        while (k < n && tolower((unsigned char)text[k]) == tolower((unsigned char)word[k]))
            k++;
        if (k == n)
            return true;
    }
    return false;
}

/* ---- who trained */

/* What a row says of itself ("framework", "system") counts first, then its set's name, repository
 * and address: the first row of the table whose word is there. What is here was read off the
 * repositories and papers:
 *   sc21, calculon  Megatron-LM of 2021 and 2022: no fused attention, sums of gradients in 16 bits,
 *                   scatter and gather between stages
 *   ci              tests of Megatron-LM: sums in 32 bits, which is its default for bf16, and
 *                   dropout, which is one, too
 *   Bridge, NeMo    recipes overlap tensor parallelism and sums of gradients, which have 16 bits,
 *                   and gather updated parameters beside the next forwards
 *   torchtitan      FSDP2 sums in 32 bits; tensor parallelism is always of sequences; pipelines
 *                   have as many microbatches as stages by default
 *   vTrain, Sailor  Megatron-DeepSpeed without fused attention; Sailor's OPT makes more of its
 *                   scores and issues more kernels, by its own profile of one layer on GH200 and
 *                   A100 (of slopes over microbatches, and of the smallest).
 *                   docs/results/fidelity.md says what was known when
 *   BigScience      Megatron-DeepSpeed before fused attention
 *   nanotron        sums of gradients in 32 bits, shards scatter their tokens (REDUCE_SCATTER),
 *                   layers cut by their products, the head's among them
 *   NeuSight        Hugging Face's models in eager PyTorch
 *   compilers       JAX, XLA: what is element-wise is one kernel */
static const struct published_source sources[] = {
    {.word = "neusight", .framework = "eager", .plain = true},
    {.word = "llm-foundry", .framework = "fsdp", .overlap = true},
    {.word = "llm_foundry", .framework = "fsdp", .overlap = true},
    {.word = "torchtitan",
     .framework = "compiled",
     .as_stages = true,
     .sequence = true,
     .reduce_bits = 32,
     .overlap = true},
    {.word = "nanotron",
     .framework = "eager",
     .sequence = true,
     .reduce_bits = 32,
     .overlap = true,
     .cut_by_work = true},
    {.word = "bigscience", .framework = "deepspeed", .plain = true, .scatter = true},
    {.word = "vtrain", .framework = "deepspeed", .plain = true, .scatter = true},
    {.word = "sailor", .framework = "deepspeed", .plain = true, .scatter = true},
    {.word = "deepspeed", .framework = "deepspeed", .scatter = true},
    {.word = "sc21", .framework = "megatron_2022", .plain = true, .scatter = true},
    {.word = "calculon", .framework = "megatron_2022", .plain = true, .scatter = true},
    {.word = "megatron_ci",
     .framework = "megatron",
     .scatter = true,
     .reduce_bits = 32,
     .dropout = true},
    {.word = "megatron",
     .framework = "megatron",
     .sequence = true,
     .tensor_overlap = true,
     .scatter = true,
     .overlap = true,
     .depth = DEPTH_FIVE},
    {.word = "nemo",
     .framework = "megatron",
     .sequence = true,
     .tensor_overlap = true,
     .scatter = true,
     .overlap = true,
     .depth = DEPTH_FIVE},
    {.word = "mlperf",
     .framework = "megatron",
     .sequence = true,
     .tensor_overlap = true,
     .scatter = true,
     .overlap = true,
     .depth = DEPTH_FIVE},
    {.word = "megascale",
     .framework = "megatron",
     .sequence = true,
     .scatter = true,
     .overlap = true},
    {.word = "fsdp", .framework = "fsdp", .overlap = true},
    {.word = "jax", .framework = "compiled", .reduce_bits = 32, .overlap = true},
    {.word = "xla", .framework = "compiled", .reduce_bits = 32, .overlap = true},
    {.word = "alpa", .framework = "compiled", .plain = true},
    {.word = "colossal", .framework = "eager", .overlap = true},
    {.word = "fairscale", .framework = "eager", .plain = true, .overlap = true},
    {.word = "pytorch", .framework = "eager", .overlap = true},
    {.word = "huggingface", .framework = "eager", .overlap = true},
    {.word = "", .framework = NULL},
};

/* The first row with whose word a word of the text begins. */
static const struct published_source *source_by(const char *text)
{
    size_t i = 0;
    for (; *sources[i].word; i++)
        for (const char *at = text; *at; at++)
            if ((at == text || !isalnum((unsigned char)at[-1])) &&
                strncasecmp(at, sources[i].word, strlen(sources[i].word)) == 0)
                return &sources[i];
    return &sources[i];
}

const struct published_source *published_source(const struct published_config *c)
{
    if (!c->framework && !c->system)
        return source_by(c->source ? c->source : "");
    const struct published_source *s = source_by(c->framework ? c->framework : "");
    return s->framework || !c->system ? s : source_by(c->system);
}

/* DeepSeek-V3 chooses experts so, and its tests say that there is no dropout. */
static bool by_sigmoid(const struct published_config *c)
{
    bool is = false;
    for (size_t i = 0; i < c->arguments; i++)
        is |= strcmp(c->argument[i].name, "--moe-router-score-function") == 0 &&
              facts_says(c->argument[i].value, "sigmoid");
    return is;
}

/* From 26.06 on all recipes of Megatron-Bridge for experts on Blackwell that rows quote have a CUDA
 * graph of the whole iteration and hide all-to-alls; taken for those that nobody quotes. */
static bool usual_recipe(const struct published_config *c)
{
    const struct gpu *gpu = c->gpu ? gpu_named(c->gpu) : NULL;
    const char *version = c->container ? strpbrk(c->container, "0123456789") : NULL;
    return c->experts > 1 && !c->graph && !c->graph_scope && c->exchange_overlap == SAID_NOTHING &&
           version && strtod(version, NULL) >= 26.06 && gpu && gpu->peak[DATA_fp4] > 0;
}

/* Part of what overlapped all-to-alls would hide that is hidden where the host issues the pieces
 * of two microbatches in turn, without a CUDA graph. */
static const double hidden_by_host = 0.5;

/* CUDA graphs of the whole iteration spare the host most of its work; those of layers leave it the
 * experts, which have most. HybridEP puts tokens in order on their way. Blocks that share a scale
 * (mxfp8, nvfp4) are written twice, along rows and columns; torchao's scales of rows were known to
 * be slow. Factors: docs/reference/kernels.md. */
void published_framework(const struct published_config *c, const struct constants *constants,
                         char text[PUBLISHED_PLATFORM])
{
    const char *name = published_source(c)->framework;
    name = name ? name : framework_usual;
    const double *v = constants->value;
    char hidden[32], rows[32];
    bool titan = strcmp(name, "compiled") == 0, usual = usual_recipe(c);
    snprintf(hidden, sizeof hidden, "exchange_hidden=%.9g",
             v[CONSTANT_exchange_hidden] * (usual || c->graph ? 1 : hidden_by_host));
    snprintf(rows, sizeof rows, "cast=%.9g", v[CONSTANT_cast_rows]);
    const struct {
        bool is;
        const char *what;
    } all[] = {
        {usual || facts_says(c->graph, "full_iteration") ||
             facts_says(c->graph_scope, "full_iteration"),
         "host=0.1"},
        {c->experts < 2 &&
             (facts_says(c->graph, "transformer_engine") || facts_says(c->graph, "local")),
         "host=0.5"},
        {usual || facts_says(c->dispatcher, "hybridep"), "permuted=3"},
        {usual || c->exchange_overlap == SAID_YES, hidden},
        {facts_says(c->dtype, "rowwise"), rows},
        {facts_says(c->dtype, "mxfp8") || facts_says(c->dtype, "nvfp4"), "cast=6"},
        {published_source(c)->dropout && !by_sigmoid(c), "dropout=1"},
        {facts_says(published_source(c)->word, "sailor"),
         "square=16,square_backward=3.1,forward_kernels=7.2,backward_kernels=8.5"},
        {facts_says(c->name, "cross_entropy_loss_fusion"), "logit=6"},
        /* sums of plans over shards have 16 bits, those of gradients in Megatron may have 32 */
        {(strncmp(name, "megatron", 8) == 0 || strcmp(name, "eager") == 0) &&
             published_source(c)->reduce_bits == 32,
         "gradient=4"},
        {facts_says(published_source(c)->word, "nanotron"), "kept=1.25"},
        /* torchtitan keeps whole ones in pipelines; its loss is compiled from 2025 on; of a loss
         * over shards torch makes two copies more (docs/reference/kernels.md) */
        {titan && c->pp > 1, "gradient=4"},
        {titan && facts_says(c->table, "2025"), "logit=0"},
        {titan && !facts_says(c->table, "2025") && c->tp > 1, "logit=14"}};
    bool host = false;
    if (strcmp(name, "compiled") == 0 && c->compiled == SAID_NO)
        name = "eager";
    size_t n = (size_t)snprintf(text, PUBLISHED_PLATFORM, "%s", name);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i].is || (host && i < 2)) /* the first two are of the host */
            continue;
        assert(n + strlen(all[i].what) + 2 < PUBLISHED_PLATFORM); /* all of them together fit */
        host |= i < 2;
        n += (size_t)snprintf(text + n, PUBLISHED_PLATFORM - n, "%c%s",
                              strchr(text, ':') ? ',' : ':', all[i].what);
    }
}

/* ---- GPUs */

/* MiB that the driver says a GPU has (nvidia-smi), which is not what its name does: 80 GB of an
 * H100 are 85.5e9 bytes. Nominal where it is not known. */
int64_t published_memory(const struct published_config *c, int64_t nominal)
{
    static const struct {
        const char *gpu;
        int64_t mib;
    } all[] = {{"A100-40", 40960}, {"A100", 81920},   {"H100", 81559},  {"H200", 143771},
               {"B200", 183359},   {"GB200", 189471}, {"B300", 275040}, {"GB300", 284208}};
    const struct gpu *gpu = gpu_named(c->gpu);
    for (size_t i = 0; gpu && i < sizeof all / sizeof *all; i++)
        if (strcmp(gpu->name, all[i].gpu) == 0)
            return all[i].mib << 20;
    return nominal;
}

/* ---- numbers */

enum status published_dtype(const struct published_config *c, enum data_type *out)
{
    static const struct {
        const char *word;
        enum data_type dtype;
    } all[] = {{"fp4", DATA_fp4},      {"fp8", DATA_fp8},       {"float8", DATA_fp8},
               {"bf16", DATA_bf16},    {"bfloat16", DATA_bf16}, {"fp16", DATA_fp16},
               {"float16", DATA_fp16}, {"fp32", DATA_fp32},     {"tf32", DATA_tf32},
               {"float32", DATA_fp32}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (facts_says(c->dtype, all[i].word)) {
            *out = all[i].dtype;
            return STATUS_OK;
        }
    return c->dtype ? error_set(STATUS_UNSUPPORTED, "unknown data type: %.40s", c->dtype)
                    : error_set(STATUS_UNSUPPORTED, "the row gives no data type");
}

/* ---- what is sharded */

/* Is part of a text about the row? Not what is not stated, nor what stands in parentheses behind a
 * system that is another one than the row's. */
static bool is_about(const struct published_config *c, const char *part)
{
    const char *open = strchr(part, '(');
    const struct published_source *of = open ? source_by(open) : NULL;
    return !facts_says(part, "not stated") && !facts_says(part, "absent") &&
           (!of || !of->framework || of == published_source(c) || (!c->framework && !c->system));
}

/* What a part of the text says of sharding; below 0: nothing that is known. */
static int64_t zero_said(const char *part)
{
    static const struct {
        const char *word;
        int64_t zero;
    } all[] = {{"ZeRO-3", 3},
               {"ZeRO-2", 2},
               {"ZeRO-1", 1},
               {"ZeRO-0", 0},
               {"zero 3", 3},
               {"zero 2", 2},
               {"zero 1", 1},
               {"zero3", 3},
               {"zero2", 2},
               {"zero1", 1},
               {"full_shard", 3},
               {"shard_grad_op", 2},
               {"distributed opt", 1},
               {"none", 0},
               {"ddp", 0},
               {"fsdp", 3},
               {"no", 0}};
    size_t n = sizeof all / sizeof *all, i = 0;
    if (part[0] >= '0' && part[0] <= '3' && !part[1])
        return part[0] - '0';
    while (i < n && !facts_says(part, all[i].word))
        i++;
    return i < n ? all[i].zero : -1;
}

/* The first part between semicolons that is about the row counts. */
enum status published_zero(const struct published_config *c, int64_t *out)
{
    char text[PUBLISHED_TEXT + 1], *part[8];
    *out = c->fsdp == SAID_YES ? 3 : 0;
    if (!c->zero || c->fsdp == SAID_YES)
        return STATUS_OK;
    snprintf(text, sizeof text, "%s", c->zero);
    size_t n = text_split(text, ";", part, 8), i = 0;
    while (i < n && !is_about(c, part[i]))
        i++;
    if (i == n)
        return STATUS_OK;
    int64_t said = zero_said(part[i]);
    if (said < 0)
        return error_set(STATUS_UNSUPPORTED, "unknown sharding: %.40s", c->zero);
    *out = said;
    return STATUS_OK;
}

/* ---- what is computed again */

/* torch's selective checkpointing of single ops makes every second product again, which is here:
 * half of the layers. What is not stated is taken to be nothing, as in recipes without memory
 * trouble. */
enum status published_recompute(const struct published_config *c, struct setup *s)
{
    const char *text = c->recompute;
    uint32_t modules = 0;
    const char *colon = text ? strchr(text, ':') : NULL;
    s->recompute = RECOMPUTE_NONE;
    s->recompute_layers = s->recompute_modules = 0;
    s->recompute_unit = 1;
    if (!text || facts_says(text, "not stated") ||
        !(facts_says(text, "full") || facts_says(text, "selective")))
        return STATUS_OK;
    bool half = facts_says(text, "every 2nd layer");
    const char *framework = published_source(c)->framework;
    bool by_op = facts_says(text, "per-op") || (framework && framework[0] == 'c');
    if (facts_says(text, "full") || half || by_op) {
        int64_t stages = (c->pp > 0 ? c->pp : 1) * (c->vp > 0 ? c->vp : 1);
        s->recompute = RECOMPUTE_FULL;
        if (!facts_says(text, "full"))
            s->recompute_layers = (uint32_t)((c->layers / stages + 1) / 2);
        return STATUS_OK;
    }
    s->recompute = RECOMPUTE_SELECTIVE;
    if (!colon)
        return STATUS_OK;
    for (colon++; isspace((unsigned char)*colon);)
        colon++;
    PASS(plan_read_modules(colon, &modules));
    s->recompute_modules = modules;
    return STATUS_OK;
}

/* ---- platforms */

/* The number that stands before the word, "400 Gbit/s per GPU"; 0: none. */
static double number_before(const char *text, const char *word)
{
    for (const char *at = text; at && *at; at++) {
        char *end;
        double number;
        if (!isdigit((unsigned char)*at) ||
            (at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '.')))
            continue;
        number = strtod(at, &end);
        if (strncmp(end, word, strlen(word)) == 0)
            return number;
    }
    return 0;
}

/* The share of activations that the host has, "CPU activation offload of 20 layers". */
double published_away(const struct published_config *c)
{
    double layers =
        facts_says(c->recompute, "offload") ? number_before(c->recompute, " layers") : 0;
    return c->layers > 0 && layers < (double)c->layers ? layers / (double)c->layers : 0;
}

static bool recompute_unsaid(const struct published_config *c)
{
    return !c->recompute || facts_says(c->recompute, "not stated") ||
           facts_says(c->recompute, "see recipe");
}

/* What costs no time: NeMo's optimizer keeps of a 16-bit parameter's fp32 copy the other 16 bits,
 * and recipes for GPUs with a Grace beside them bring activations to its memory. */
const char *published_spare(const struct published_config *c, struct published_prediction *p)
{
    const struct gpu *gpu = c->gpu ? gpu_named(c->gpu) : NULL;
    const char *framework = published_source(c)->framework;
    int64_t over = p->peak_bytes - p->device_bytes, less = 0;
    const char *words = NULL;
    if (over <= 0 || !recompute_unsaid(c) || !framework || strcmp(framework, "megatron") != 0)
        return NULL;
    if (over <= p->state_bytes / 6) {
        less = p->state_bytes / 6; /* 2 of 12 bytes */
        p->state_bytes -= less;
        words = "16 bits of parameters' copies";
    } else if (gpu && strncmp(gpu->name, "GB", 2) == 0 && over <= p->stash_bytes) {
        less = over;
        p->stash_bytes -= less;
        words = "activations in the host's memory";
    }
    p->peak_bytes -= less;
    p->last_bytes -= less;
    return words;
}

/* For rows that do not say what is made again, in the order in which it costs more time. NULL: no
 * more. */
const char *published_assume(const struct published_config *c, size_t k, struct setup *s)
{
    static const char *const names[] = {"recompute layernorm,mlp,moe_act",
                                        "recompute half of the layers", "recompute all layers",
                                        "recompute layernorm,mlp,moe_act and ZeRO 3"};
    enum { MODULES, HALF, ALL, SHARDED, ASSUMPTIONS };
    int64_t stages = (c->pp > 0 ? c->pp : 1) * (c->vp > 0 ? c->vp : 1);
    bool by_module = k == MODULES || k == SHARDED;
    uint32_t modules = 0;
    if (k >= ASSUMPTIONS || !recompute_unsaid(c) ||
        plan_read_modules("layernorm,mlp,moe_act", &modules) != STATUS_OK)
        return NULL;
    s->recompute = by_module ? RECOMPUTE_SELECTIVE : RECOMPUTE_FULL;
    s->recompute_modules = by_module ? modules : 0;
    s->recompute_layers = k == HALF ? (uint32_t)((c->layers / stages + 1) / 2) : 0;
    s->zero = k == SHARDED ? 3 : s->zero;
    return names[k];
}

/* Gbit/s of each GPU's port; 0: not said. "8x NDR InfiniBand 400 Gbit/s" is a port each. */
static double port_of(const struct published_config *c, int64_t per_node)
{
    double each = number_before(c->network, " Gbit/s per GPU");
    if (each <= 0 && facts_says(c->network, "8x "))
        each = number_before(c->network, " Gbit/s");
    if (each <= 0)
        each = number_before(c->network, " Gbit/s per node") / (double)per_node;
    return each >= 1 && each <= 10000 ? each : 0;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The network that the row names, as families take it; NULL: none that is known. */
static const char *fabric_of(const struct published_config *c)
{
    static const char *const all[][2] = {{"EFA v4", "efa4"},
                                         {"EFA", "efa"},
                                         {"RoCE", "roce"},
                                         {"Slingshot", "slingshot"},
                                         {"Omni-Path", "omnipath"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (facts_says(c->network, all[i][0]))
            return all[i][1];
    return NULL;
}

/* Jobs take domains of NVLink in equal parts: 256 GPUs are four times 64 of 72. */
enum status published_platform(const struct published_config *c, char text[PUBLISHED_PLATFORM])
{
    enum { DOMAIN_GPUS = 72 };
    char nic[96] = "";
    if (!c->gpu || c->gpus < 1)
        return error_set(STATUS_UNSUPPORTED, "the row does not give %s",
                         c->gpu ? "how many GPUs" : "which GPU");
    const struct gpu *gpu = gpu_named(c->gpu);
    if (!gpu)
        return error_set(STATUS_UNSUPPORTED, "the GPU catalogue has no %.60s", c->gpu);
    bool domain = strncmp(gpu->name, "GB", 2) == 0;
    int64_t node = smaller(c->gpus, domain                 ? DOMAIN_GPUS
                                    : c->gpus_per_node > 0 ? c->gpus_per_node
                                                           : 8);
    while (c->gpus % node != 0)
        node--;
    double port = port_of(c, node);
    if (port > 0)
        snprintf(nic, sizeof nic, ",nic=%gGbps", port);
    bool pairs = strcmp(gpu->name, "GH200") == 0 && node <= 4; /* boards of four, as in Alps */
    const char *family = domain ? "nvl:domains" : pairs ? "fat-tree:nodes" : "rail:nodes";
    if (pairs)
        snprintf(nic + strlen(nic), sizeof nic - strlen(nic), ",mesh=1,nics=%" PRId64, node);
    if (fabric_of(c))
        snprintf(nic + strlen(nic), sizeof nic - strlen(nic), ",fabric=%s", fabric_of(c));
    snprintf(text, PUBLISHED_PLATFORM, "%s=%" PRId64 ",gpus=%" PRId64 ",type=%s%s", family,
             c->gpus / node, node, gpu->name, nic);
    return STATUS_OK;
}
