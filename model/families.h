/* families.h - builders of the zoo: each turns hyper-parameters into a graph. Private to model/.
 *
 * `value` has the hyper-parameters in the order of the family's enum, each within the range of its
 * row in the zoo; what only makes sense together (heads dividing hidden) is checked here:
 * STATUS_INVALID. */
#ifndef MODEL_FAMILIES_H
#define MODEL_FAMILIES_H

#include "core/model.h"

enum { MLP_LAYERS, MLP_HIDDEN, MLP_TOKENS, MLP_CHANNELS, MLP_VOCABULARY, MLP_PARAMETERS };

/* Next-token prediction from a window of `tokens` embedded tokens: [linear, gelu] x layers, linear.
 * A sample is one window; one token is predicted. */
enum status zoo_mlp(const int64_t *value, struct model *out) MUST_CHECK;

enum {
    TRANSFORMER_LAYERS,
    TRANSFORMER_HIDDEN,
    TRANSFORMER_HEADS,
    TRANSFORMER_TOKENS,
    TRANSFORMER_VOCABULARY,
    TRANSFORMER_POSITIONS,
    TRANSFORMER_BITS,
    TRANSFORMER_FLASH,
    TRANSFORMER_PARAMETERS_BERT,
    GPT_TIED = TRANSFORMER_PARAMETERS_BERT,
    TRANSFORMER_PARAMETERS_GPT
};

/* GPT-2: pre-LN decoder. Radford et al., "Language Models are Unsupervised Multitask Learners"
 * (2019). */
enum status zoo_gpt(const int64_t *value, struct model *out) MUST_CHECK;
/* BERT with its masked-LM head: post-LN encoder. Devlin et al., NAACL 2019. */
enum status zoo_bert(const int64_t *value, struct model *out) MUST_CHECK;

enum {
    EXPERTS_LAYERS,
    EXPERTS_HIDDEN,
    EXPERTS_HEADS,
    EXPERTS_TOKENS,
    EXPERTS_VOCABULARY,
    EXPERTS_BITS,
    EXPERTS_FLASH,
    EXPERTS_PARAMETERS_PLAIN,
    EXPERTS_EXPERTS = EXPERTS_PARAMETERS_PLAIN,
    EXPERTS_TOP_K,
    EXPERTS_CAPACITY,
    EXPERTS_GROUP,
    EXPERTS_EINSUM,
    EXPERTS_PARAMETERS
};

/* The models of HiDup's evaluation (Zhang et al., SoCC 2022, and its artifact): post-LN encoder
 * layers, of which every second has a mixture of experts in the place of its feed-forward; plain
 * ones have none. r: language model, fixed positions, untied head with a bias. v: classifier of
 * 32 x 32 images in patches of 4 x 4, from the class token; a sample is one image of `tokens`
 * patches. */
enum status zoo_r_plain(const int64_t *value, struct model *out) MUST_CHECK;
enum status zoo_r_experts(const int64_t *value, struct model *out) MUST_CHECK;
enum status zoo_v_plain(const int64_t *value, struct model *out) MUST_CHECK;
enum status zoo_v_experts(const int64_t *value, struct model *out) MUST_CHECK;

enum { CHAINS_OPS, CHAINS_PARAMETERS };

/* Ops 0 .. n/2 in a chain, n/2 + 1 .. n - 1 in another, whose end op n/2 reads too; every op has 2
 * parameters. As an undirected graph one path, so that optimal cuts are known. */
enum status zoo_two_chains(const int64_t *value, struct model *out) MUST_CHECK;

#endif
