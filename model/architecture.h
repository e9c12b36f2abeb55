/* architecture.h - a transformer by its hyper-parameters, whatever its family, and the model of it.
 *
 * What families differ in is data: sizes, which projections have biases, and traits. So a family is
 * a line of families.def with the values of keys that a configuration leaves out, and
 * architecture_build() is the one place that knows how the parts are put together. Formulas of
 * parameters: docs/reference/models.md, with the published counts that they reproduce. */
#ifndef MODEL_ARCHITECTURE_H
#define MODEL_ARCHITECTURE_H

#include "core/data/model.h"

enum { ARCHITECTURE_LAYERS = 1024 };

/* Bits of `traits`; what each says is beside its name in traits.def. */
enum architecture_trait_bit {
#define TRAIT(id, name) BIT_##id,
#include "model/traits.def"
#undef TRAIT
};
enum architecture_trait {
#define TRAIT(id, name) TRAIT_##id = 1 << BIT_##id,
#include "model/traits.def"
#undef TRAIT
};

/* What a layer is that not all are. */
enum architecture_layer { LAYER_WINDOWED = 1 << 0, LAYER_PLAIN = 1 << 1 /* no experts */ };

/* Layers whose attention looks back over `tokens` only, itself included: those from `from` on, of
 * these all (period 0) or all but those with (i + 1 + phase) % period == 0. */
struct architecture_window {
    int64_t tokens, used, from, period, phase;
};

/* Of a model with an encoder (only: without one); 0: as in the encoder. */
struct architecture_decoder {
    int64_t layers, heads, inner, only;
};

/* All int64_t, so that one table has the keys of all (config_keys.def). 0: not there, or by
 * rule. */
struct architecture {
    int64_t layers, hidden, inner, heads, vocabulary;
    int64_t kv_heads, head; /* 0: as many as heads; hidden / heads */
    int64_t layer_groups;   /* layers share parameters in so many groups, 0: in none */
    int64_t context;        /* tokens that the model is made for */
    int64_t spare;          /* rows of the table of positions besides one per token of it */
    int64_t types;          /* rows of the table of segments */
    int64_t embedding;      /* width of the table of tokens, 0: hidden */
    int64_t tied;           /* the head is the table of tokens */
    int64_t qkv_bias, out_bias, mlp_bias, head_bias;
    struct architecture_window window;
    int64_t experts, top_k, expert_inner;
    int64_t
        capacity; /* % of an expert's share of a sample's tokens that it has slots for; 0: as many
                       * as it is sent */
    int64_t groups, group_top;    /* a token takes experts of the best so many groups; 0: of all */
    int64_t route_scale;          /* of weights of experts, in thousandths; 0: 1000 */
    int64_t shared, shared_inner; /* experts of every token: how many, or how wide together */
    int64_t first_dense;          /* layers before have a plain MLP */
    int64_t routed_step;          /* of the others, those with (i + 1) % step == 0 are routed */
    int64_t query_rank, kv_rank;  /* latent attention: widths of the latents; 0: none */
    int64_t nope, rope, value;    /* latent attention: parts of a head */
    int64_t predict;              /* modules that predict a further token each */
    struct architecture_decoder decoder;
    int64_t layout; /* rows of each table of places on a page: x, y, height, width */
    int64_t buckets;
    /* Scores of contents with distances (DeBERTa). max_distance, position_buckets: half the rows of
     * the table of distances, the latter before the former, 0: context. */
    int64_t relative, max_distance, position_buckets;
    int64_t c2p, p2c;      /* of a query's content with a distance, of a distance with a key's */
    int64_t share_key;     /* distances go through the weights of queries and keys */
    int64_t relative_norm; /* the table of distances is normalised */
    int64_t qv_bias;       /* queries and values have biases, keys have none */
    /* Attention makes scores with sinusoids of distances (Transformer-XL, XLNet). */
    int64_t sinusoids;
    /* ConvBERT: there are so many times fewer heads, and beside them kernels over so many tokens;
     * 0: none. */
    int64_t head_ratio, kernel;
    /* MobileBERT: layers are so wide inside, with so many feed-forward networks each; 0: no such
     * layers. */
    int64_t bottleneck, stacked;
    int64_t image, patch, colours;
    int64_t classes; /* of images, or of a head behind the pooler; 0: there is none */
    int64_t base;    /* of rotary positions, 0: 10000 */
    enum data_type dtype;
    uint32_t traits;
    size_t listed; /* layers of which the file says one by one whether they are windowed; 0: by the
                    * rules above */
    uint8_t layer[ARCHITECTURE_LAYERS]; /* enum architecture_layer */
};

/* A family of models: a line of families.def. */
struct model_family {
    const char *name;       /* "model_type" of a configuration */
    const char *class_name; /* beginning of a class's name in "architectures": LlamaForCausalLM */
    struct architecture usual; /* values of keys that are absent */
};
extern const struct model_family *const transformer_families[]; /* [transformer_families_n] */
extern const size_t transformer_families_n;
/* By name; NULL: none. */
const struct model_family *family_find(const char *name);

/* What a user chooses beside the architecture; 0: the architecture's. */
struct architecture_choice {
    int64_t tokens, layers, capacity;
    enum data_type dtype;
    bool flash; /* attention keeps no (tokens, tokens) matrix, and skips what is masked */
};

/* The model, called `name`; tokens are by default `context`, at most 4096. STATUS_INVALID says
 * which sizes do not go together. O(layers). */
enum status architecture_build(const struct architecture *a, const struct architecture_choice *c,
                               const char *name, struct model *out) MUST_CHECK;

#endif
