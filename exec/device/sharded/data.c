/* Inputs of an iteration, drawn by their place in the batch. Words are those of a text, with the
 * words that follow; an image is its class's, drawn once, and noise. */
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/random.h"
#include "exec/corpus.h"
#include "exec/device/sharded/sharded.h"

static const double noise = 0.5; /* an image's share of it */

static bool is_input(const struct operators_node *n)
{
    return !strcmp(n->kind, "input");
}

/* What a tensor that nobody makes is drawn from; nobody reads it: numbers. */
static struct start source_of(const struct sharded *s, uint32_t tensor)
{
    struct start from = sharded_start_of(s, tensor);
    return from.source == SOURCE_NUMBERS ? kind_numbers(0, 1) : from;
}

/* Whole batches of words are as large as the first input that has some. */
static enum status find_input(struct sharded *s, const struct operators_node *n)
{
    const struct view *v = &s->slot[0][n->made].own.view;
    struct start from = source_of(s, n->made);
    struct batch_shape shape = {OBJECTIVE_NEXT, s->halves * v->whole[0], v->whole[1]};
    if (from.source == SOURCE_LABELS)
        s->classes = from.of;
    if (from.source != SOURCE_TOKENS && from.source != SOURCE_TARGETS)
        return STATUS_OK;
    if (v->rank != 2)
        return error_set(
            STATUS_UNSUPPORTED,
            "operator '%s': training data have %zu dimensions, expected two (samples, tokens)",
            n->name, (size_t)v->rank);
    if (s->words.samples > 0 &&
        (shape.samples != s->words.samples || shape.tokens != s->words.tokens))
        return error_set(STATUS_UNSUPPORTED,
                         "operator '%s': got %zu samples of %zu tokens, but an earlier operator "
                         "reads %zu samples of %zu",
                         n->name, shape.samples, shape.tokens, s->words.samples, s->words.tokens);
    if (from.of < CORPUS_VOCABULARY)
        return error_set(
            STATUS_UNSUPPORTED,
            "operator '%s' has %zu classes, expected at least classes=%d for training text",
            n->name, from.of, CORPUS_VOCABULARY);
    s->words = shape;
    return batch_check(s->corpus, &shape);
}

enum status sharded_find_inputs(struct sharded *s)
{
    for (size_t i = 0; i < s->all->nodes; i++)
        if (is_input(&s->all->node[i]))
            PASS(find_input(s, &s->all->node[i]));
    size_t n = s->words.samples * s->words.tokens;
    PASS(ARRAY_NEW(s->token, n));
    return ARRAY_NEW(s->target, n);
}

static size_t label_of(const struct sharded *s, uint64_t key, size_t sample)
{
    return s->classes > 0 ? (size_t)(random_at(key, sample) % s->classes) : 0;
}

/* Number i of the batch is one of `numbers` of its sample. */
static double draw_pixel(const struct sharded *s, uint64_t labels, uint64_t key, size_t i,
                         size_t numbers)
{
    uint64_t of_class =
        random_key(random_key(s->program->seed, STREAM_IMAGES), label_of(s, labels, i / numbers));
    return (1 - noise) * (2 * random_unit(of_class, i % numbers) - 1) +
           noise * (2 * random_unit(key, i) - 1);
}

/* v: where the half's part is in the batch. */
static void sharded_data_fill(const struct sharded *s, const struct start *from,
                              const struct view *v, uint64_t key, real *to)
{
    uint64_t labels = random_key(random_key(s->program->seed, STREAM_LABELS), s->updates);
    size_t numbers = 1;
    for (size_t d = 1; d < v->rank; d++)
        numbers *= v->whole[d];
    if (from->source == SOURCE_NUMBERS)
        sharded_draw(key, v, from, to);
    for (size_t k = 0; k < v->n && from->source != SOURCE_NUMBERS; k++) {
        size_t i = view_index(v, k);
        to[k] = from->source == SOURCE_TOKENS    ? (real)s->token[i]
                : from->source == SOURCE_TARGETS ? (real)s->target[i]
                : from->source == SOURCE_LABELS  ? (real)label_of(s, labels, i / numbers)
                                                 : (real)draw_pixel(s, labels, key, i, numbers);
    }
}

void sharded_inputs(struct sharded *s)
{
    uint64_t key = random_key(random_key(s->program->seed, STREAM_INPUTS), s->updates);
    if (s->words.samples > 0)
        batch_fill(s->corpus, &s->words, s->program->seed, (uint32_t)s->updates, 0, s->token,
                   s->target);
    for (size_t i = 0; i < s->all->nodes; i++) {
        const struct operators_node *n = &s->all->node[i];
        for (size_t half = 0; half < s->halves && is_input(n); half++) {
            struct operand *own = &s->slot[half][n->made].own;
            struct start from = source_of(s, n->made);
            struct view v = own->view;
            view_in_batch(&v, 0, half, s->halves);
            sharded_data_fill(s, &from, &v, random_key(key, i), sharded_draws(s, own));
            sharded_drew(s, own);
        }
    }
}
