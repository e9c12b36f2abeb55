/* architecture_parts.h - a transformer under construction: what architecture.c and its layers
 * share. Each function appends ops to b->g and returns the last one; a failure stays in
 * b->g.status. */
#ifndef MODEL_ARCHITECTURE_PARTS_H
#define MODEL_ARCHITECTURE_PARTS_H

#include "model/architecture.h"
#include "model/graph.h"

struct architecture_build {
    struct graph g;
    struct architecture a; /* without zeros that mean "by rule" */
    int64_t tokens;
    bool flash;
    uint32_t table;    /* op with the table of tokens */
    uint32_t distance; /* of distances, where scores are made with them */
    int64_t distances; /* its rows */
};

static inline bool part_has(const struct architecture_build *b, uint32_t trait)
{
    return (b->a.traits & trait) != 0;
}

/* Ops that follow are called "h3.", say. */
void part_prefix(struct architecture_build *b, const char *what, int64_t i);
/* The family's norm, over the stream or over so many channels. */
uint32_t part_norm(struct architecture_build *b, const char *name, uint32_t x);
uint32_t part_norm_of(struct architecture_build *b, const char *name, uint32_t x, int64_t channels);
uint32_t part_linear(struct architecture_build *b, const char *name, uint32_t x, int64_t in,
                     int64_t out, bool bias, enum model_tensor tensor);
uint32_t part_add(struct architecture_build *b, const char *name, uint32_t stream, uint32_t branch);
/* Layer i of a stack, and of a decoder that attends to what an encoder has made. */
uint32_t part_layer(struct architecture_build *b, uint32_t x, int64_t i);
uint32_t part_decoder_layer(struct architecture_build *b, uint32_t x, uint32_t encoded, int64_t i);

/* architecture_encoders.c: attention of XLNet and ConvBERT, with its projections; MobileBERT's
 * layer, and its ends: from the table of tokens to the stream, from the stream to the loss. */
uint32_t part_sinusoid_attention(struct architecture_build *b, uint32_t x, int64_t i);
uint32_t part_mixed_attention(struct architecture_build *b, uint32_t x);
uint32_t part_layer_mobile(struct architecture_build *b, uint32_t x);
uint32_t part_begin_mobile(struct architecture_build *b, uint32_t x);
void part_end_mobile(struct architecture_build *b, uint32_t x);
enum status part_check_encoders(const struct architecture *a) MUST_CHECK;

#endif
