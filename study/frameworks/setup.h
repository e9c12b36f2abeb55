/* setup.h - how a training framework is told what to run: degrees, batch, sharding, and sizes of
 * the model, neutral between the frameworks and a plan.
 *
 *     file -> keys (keys.h) -> rows of a framework -> setup -> plan     setup_of_keys,
 *                                                                       setup_to_plan
 *     plan -> setup -> rows of a framework -> file                      setup_of_plan
 *
 * A framework's names are a table of rows, which reads and writes; what no single row can say, its
 * file does. Frameworks are files study/frameworks/NAME.c that define dialect_NAME, and lines of
 * frameworks.def. */
#ifndef STUDY_FRAMEWORKS_SETUP_H
#define STUDY_FRAMEWORKS_SETUP_H

#include <stdint.h>
#include <stdio.h>

#include "core/data/plan.h"
#include "core/data/topology.h"
#include "model/architecture.h"
#include "study/frameworks/keys.h"

enum setup_positions { POSITIONS_LEARNED, POSITIONS_ROPE, POSITIONS_NONE, POSITIONS_KINDS };

struct arguments;
struct conf;

/* Layers of a pipeline's stages. */
struct setup_stage_words {
    int64_t chunk_layers, first_layers, last_layers, count_embedding, count_head,
        uneven; /* layers that are left over go to the first stages */
    const char *layout;
};

/* What some frameworks call by other names, between rows and a setup's own members. */
struct setup_words {
    struct setup_stage_words stages;
    const char *frequency, *capacity; /* layers with experts; slots, times an expert's share */
    int64_t padded;                   /* they work on all of it */
    const char *precision, *sums, *norm, *activation, *attention, *embeddings, *optimizer_name,
        *sharding, *recomputed, *offloaded, *hub, *weights, *flavor, *function, *converters,
        *dispatcher, *route_scale, *fp8_recipe, *attention_dropout, *hidden_dropout;
    int64_t fp8, fp16, bf16, distributed, fsdp, fsdp2, strategy, overlap, gathers_beside,
        bucket_elements, bucket_mib, reduce_16, wide_sums, method, all_layers, selected, backend,
        shard, replicate, local_batch, microbatch_tokens, reshard, expansion, multiple, alibi,
        rotary, to_host, grouped_gemm, compile, no_graphs;
    enum plan_recompute granularity;
    uint32_t unit;
};

/* Members of rows are numbers of any type that knobs have, or texts; 0 or NULL: not said. */
struct setup {
    struct keys *keys; /* their arena has all texts and lists here */

    /* the model */
    struct architecture a; /* layers 0: the file does not say the model */
    const char *model;     /* the model's name in foreline, where the file names one */
    const char *unknown;   /* a name of a model that foreline does not have */
    int64_t rms, gated, positions, no_bias, qkv_bias, untied, head_norm, latent, router_bias,
        sigmoid_router, shared_gate, parallel, grouped, embedding_norm;
    int64_t masked;                  /* BERT: tokens attend both ways */
    int64_t encoder_decoder;         /* T5 */
    int64_t tokens, plain_attention; /* per sample; it keeps its scores */
    int64_t dtype, bits; /* enum data_type; of a number that is kept, by setup_set_dtype() */

    /* devices and how they are divided */
    int64_t devices, nodes, per_node;
    const char *gpu; /* of a plan: the type of its first device, borrowed */
    int64_t pipeline, chunks, expert_tensor;
    int64_t apart; /* ranks of a pipeline lie together: tp-cp-ep-pp-dp; 0: tp-cp-ep-dp-pp */
    size_t stages;
    int64_t *cut; /* [stages] transformer layers of each stage, in the model's order */

    /* an iteration */
    int64_t microbatch_size, batch, accumulation; /* samples; microbatches of a replica */
    const char *schedule;
    int64_t optimizer; /* 0: adam, 1: sgd */
    bool dropout;      /* of a plan: its framework's model has some */
    bool compiled;     /* of a plan: its framework compiles the model */

    /* the plan's knobs; all stages have the same */
#include "core/strategy/strategy_plan.def"
#include "core/strategy/strategy_stage.def"
    uint64_t chosen, effective; /* of a plan: knobs that are not usual; and change something */

    struct setup_words words;

    const struct conf *conf; /* pipedream.c's own */

    /* what to tell the user */
    size_t notes;
    struct setup_note {
        enum setup_note_kind { NOTE_ASSUMED, NOTE_LOST } kind;
        const char *text;
    } * note; /* [notes] */
};

/* a * b of numbers that a file says, at most 2^40, which is more than anything may be. */
static inline int64_t setup_times(int64_t a, int64_t b)
{
    const int64_t most = INT64_C(1) << 40;
    return a > 0 && b > most / a ? most : a * b;
}

/* ---- names */

enum setup_kind {
    SETUP_NUMBER,
    SETUP_FLAG,
    SETUP_NOT,  /* a flag that says the opposite of the member */
    SETUP_WORD, /* one of `word`; the member is its number */
    SETUP_TEXT,
    SETUP_LOST /* whatever it says, a plan has no such thing: `lost` says what */
};

struct setup_row {
    const char *section; /* where it is written: a table, a map, or an array of arguments */
    const char *key;     /* dotted where the map has maps */
    enum setup_kind kind;
    size_t offset; /* of the member in struct setup */
    enum field_kind member;
    int64_t
        usual; /* what the framework takes when the key is absent; such values are not written */
    const char *const *word; /* NULL at the end */
    const char *lost;        /* what is not expressed */
    bool alias;              /* another or older name, which is read and never written */
};

/* Rows that are read and written, and, ALSO_, other or older names that are only read. */
#define SETUP_ROW(in, name, kind_, member_, ...)                                                   \
    {                                                                                              \
        .section = (in), .key = (name), .kind = SETUP_##kind_,                                     \
        .offset = offsetof(struct setup, member_),                                                 \
        .member = STRATEGY_MEMBER(struct setup, member_), __VA_ARGS__                              \
    }
#define ROW_NUMBER(in, name, member, standard)                                                     \
    SETUP_ROW(in, name, NUMBER, member, .usual = (standard))
#define ROW_FLAG(in, name, member) SETUP_ROW(in, name, FLAG, member, .usual = 0)
#define ROW_ON(in, name, member)                                                                   \
    SETUP_ROW(in, name, FLAG, member, .usual = 1) /* unless it is off */
#define ROW_NOT(in, name, member)  SETUP_ROW(in, name, NOT, member, .usual = 0)
#define ROW_TEXT(in, name, member) SETUP_ROW(in, name, TEXT, member, .usual = 0)
#define ROW_WORD(in, name, member, words, standard)                                                \
    SETUP_ROW(in, name, WORD, member, .word = (words), .usual = (standard))
#define ROW_LOST(name, text)                                                                       \
    {                                                                                              \
        .key = (name), .kind = SETUP_LOST, .lost = (text)                                          \
    }
#define ALSO_NUMBER(name, member) SETUP_ROW(NULL, name, NUMBER, member, .alias = true)
#define ALSO_FLAG(name, member)   SETUP_ROW(NULL, name, FLAG, member, .alias = true)
#define ALSO_NOT(name, member)    SETUP_ROW(NULL, name, NOT, member, .alias = true)
#define ALSO_TEXT(name, member)   SETUP_ROW(NULL, name, TEXT, member, .alias = true)
#define ALSO_WORD(name, member, words)                                                             \
    SETUP_ROW(NULL, name, WORD, member, .word = (words), .alias = true)

/* Where a row's key and value go: NULL is a flag that is on. `text`: it is no number. */
typedef void setup_put(void *to, const struct setup_row *row, const char *value, bool text);

/* Set every member that a row has to what is usual, then to what the keys say; later keys of one
 * name win, and names that are no aliases. STATUS_PARSE, STATUS_INVALID, STATUS_UNSUPPORTED. */
enum status setup_read(struct setup *s, const struct setup_row *rows, size_t n) MUST_CHECK;
/* Every row whose value is not the usual one, in the order of the table. */
void setup_write(const struct setup *s, const struct setup_row *rows, size_t n, setup_put *put,
                 void *to);
/* Every row that says something, usual or not. */
void setup_write_all(const struct setup *s, const struct setup_row *rows, size_t n, setup_put *put,
                     void *to);
enum status setup_add_note(struct setup *s, enum setup_note_kind kind, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
/* Lines on `out`: what was assumed, what a plan cannot say, and keys that were not used, in
 * groups. */
void setup_print_notes(const struct setup *s, FILE *out);

/* ---- frameworks, whose arguments are dialects of one language (core/strategy/framework.h: what
 * they do) */

struct dialect {
    const char *name, *summary;
    const char *title;   /* in messages: "Megatron-LM" */
    const char *version; /* whose arguments are written; NULL: not said */
    const struct setup_row *row;
    size_t rows;
    /* KNOB_BIT() of knobs that it says otherwise than by a row of the member, and of those that a
     * plan must not lose, so that it is refused. Others that have no row are noted. */
    uint64_t says, refuses;
    /* Are these keys of a file of it? */
    bool (*recognises)(const struct keys *k);
    /* After the rows: from the framework's own members to the neutral ones. */
    enum status (*after)(struct setup *s);
    /* The inverse, before rows are written (setup_express()). NULL: plans are only imported. */
    enum status (*before)(struct setup *s);
    void (*write)(const struct setup *s, const char *title, FILE *out);
    /* Why the framework warns against what before() has taken; NULL: it does not. */
    const char *(*warns)(const struct setup *s);
    /* Instead of all these but after(): files without degrees, which say themselves which modules a
     * stage has and which ranks. to_plan: without the names of model and platform; `m` NULL: only a
     * line about the file. of_plan: what it cannot express is STATUS_UNSUPPORTED, before anything
     * is written. */
    enum status (*to_plan)(struct setup *s, const struct arguments *a, const struct model *m,
                           const struct topology *t, struct plan *out);
    void (*print)(const struct setup *s, FILE *out);
    enum status (*of_plan)(const struct plan *p, const struct model *m, FILE *out);
};

#define DIALECT(name) extern const struct dialect dialect_##name;
#include "study/frameworks/frameworks.def"
#undef DIALECT
extern const struct dialect *const dialects[]; /* [dialects_n] */
extern const size_t dialects_n;
/* The framework whose keys these are. STATUS_UNSUPPORTED: none, with the names of all. */
enum status dialect_recognise(const struct keys *k, const struct dialect **out) MUST_CHECK;
const char *dialect_name(size_t i); /* of those that plans are exported to; NULL behind the last */

/* ---- between setups and plans */

/* What follows from what was said: devices, batch, microbatches. `devices`: as many as the user
 * says, 0: the file's. STATUS_INVALID. */
enum status setup_settle(struct setup *s, int64_t devices) MUST_CHECK;
/* The model's sizes as an architecture. STATUS_INVALID: the file has no sizes. */
enum status setup_architecture(struct setup *s, struct architecture *out) MUST_CHECK;
/* The inverse; false: sizes that arguments of frameworks do not say. */
bool setup_of_architecture(const struct architecture *a, const struct architecture_choice *c,
                           struct setup *s);
/* Models without experts have no expert parallelism, which is noted. */
enum status setup_check_experts(struct setup *s, const struct model *m) MUST_CHECK;
/* A settled setup as a plan, on the platform's first devices. Names of model and platform are not
 * set. STATUS_INVALID. */
enum status setup_to_plan(struct setup *s, const struct model *m, const struct topology *t,
                          struct plan *out) MUST_CHECK;
/* A plan as a setup, without the model's sizes; t must know its nodes. STATUS_UNSUPPORTED: what no
 * framework can express. */
enum status setup_of_plan(const struct plan *p, const struct model *m, const struct topology *t,
                          struct setup *s) MUST_CHECK;

/* Such a setup, with the model's sizes, as the framework's own members, before rows are written:
 * knobs that it has no word for are refused or noted. STATUS_UNSUPPORTED: what it cannot express,
 * without its name. */
enum status setup_express(struct setup *s, const struct dialect *to) MUST_CHECK;
/* Bits of gradients' sums. */
static inline int64_t setup_reduce_bits(const struct setup *s)
{
    return s->reduce_dtype == DATA_ANY ? s->bits : 8 * (int64_t)data_type_bytes(s->reduce_dtype);
}

/* Where the transformer layers of a model begin. */
struct setup_layers {
    size_t n;      /* layers: neighbours among the ops whose names begin with the same "h3." */
    size_t *first; /* [n + 1] their first ops, and the op behind the last one; malloc'd */
};
enum status setup_layers(const struct model *m, struct setup_layers *out) MUST_CHECK;
/* Layers per stage of a model of so many, from what was said about it; pipeline >= 1, and chunks >=
 * 1 unless they follow. STATUS_INVALID. */
enum status setup_cut(struct setup *s, int64_t layers) MUST_CHECK;
/* Megatron's "Et*3|(tt|)*2,t*4L" as layers per stage, and back ("" for what is divided evenly). */
enum status setup_read_layout(struct setup *s, const char *text) MUST_CHECK;
enum status setup_write_layout(const struct setup *s, const char **out) MUST_CHECK;
/* Are all stages equally large? */
bool setup_is_even(const struct setup *s);

/* The type of numbers, and how many bits they have. */
void setup_set_dtype(struct setup *s, enum data_type dtype);
/* The type by the flags fp8, fp16 and bf16, the text `precision`, or, which is noted, what is
 * usual. */
enum status setup_read_dtype(struct setup *s, enum data_type usual) MUST_CHECK;
/* Sums have so many bits. */
static inline void setup_set_sums(struct setup *s, int64_t bits)
{
    s->reduce_dtype = bits == 32 ? DATA_fp32 : DATA_bf16;
}
/* Which of its layers have experts: Megatron's "[0]*3+[1]*58" or a step. */
enum status setup_read_frequency(struct setup *s, const char *text) MUST_CHECK;
/* The architecture's capacity of experts from `capacity` and `padded`; without padding a note. */
enum status setup_read_capacity(struct setup *s) MUST_CHECK;
/* A model of foreline by what other programs call it ("meta-llama/Llama-3.1-8B"); NULL: none. */
const char *setup_model_of(struct setup *s, const char *name);

#endif
