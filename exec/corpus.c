/* Samples out of a text: which bytes, what is hidden, what is to be predicted. */
#include "exec/corpus.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/random.h"

enum status corpus_read(const char *path, struct corpus *out)
{
    char *text;
    size_t n;
    PASS(file_read(path, &text, &n));
    if (n == 0) {
        free(text);
        return error_set(STATUS_IO, "%s: empty file, expected text to train on", path);
    }
    *out = (struct corpus){(unsigned char *)text, n};
    return STATUS_OK;
}

void corpus_free(struct corpus *c)
{
    free((void *)c->text);
    *c = (struct corpus){0};
}

size_t batch_targets(const struct batch_shape *s)
{
    if (s->objective == OBJECTIVE_NEXT)
        return s->tokens;
    if (s->objective == OBJECTIVE_LAST)
        return 1;
    size_t n = (size_t)floor(0.15 * (double)s->tokens + 0.5);
    return n > 0 ? n : 1;
}

enum status batch_check(const struct corpus *c, const struct batch_shape *s)
{
    if (c->n > s->tokens)
        return STATUS_OK;
    return error_set(STATUS_INVALID,
                     "training text has %zu bytes (tokens), but a sample and its next token need "
                     "%zu; give a longer file with --text",
                     c->n, s->tokens + 1);
}

/* Hide exactly batch_targets() of the tokens; value 0 of the stream `key` is the start already. */
static void corpus_mask_tokens(const struct batch_shape *s, uint64_t key, int32_t *token,
                               int32_t *target)
{
    size_t wanted = batch_targets(s);
    for (size_t t = 0; t < s->tokens; t++) {
        size_t left = s->tokens - t; /* wanted <= left: all of the rest in the worst case */
        bool hide = random_unit(key, t + 1) * (double)left < (double)wanted;
        target[t] = hide ? token[t] : -1;
        if (!hide)
            continue;
        token[t] = CORPUS_MASK;
        wanted--;
    }
}

/* Stream of a sample: key(key(key(seed, step), microbatch), sample). Value 0 is its first byte in
 * the text, values 1 .. T decide what is masked. */
void batch_fill(const struct corpus *c, const struct batch_shape *s, uint64_t seed, uint32_t step,
                uint32_t microbatch, int32_t *token, int32_t *target)
{
    size_t n = s->tokens;
    uint64_t stream = random_key(random_key(seed, step), microbatch);
    for (size_t b = 0; b < s->samples; b++, token += n) {
        uint64_t key = random_key(stream, b);
        size_t at = (size_t)(random_at(key, 0) % c->n);
        for (size_t t = 0; t < n; t++)
            token[t] = c->text[(at + t) % c->n];
        int32_t next = c->text[(at + n) % c->n];
        switch (s->objective) {
        case OBJECTIVE_NEXT:
            for (size_t t = 0; t + 1 < n; t++)
                target[t] = token[t + 1];
            target[n - 1] = next;
            target += n;
            break;
        case OBJECTIVE_MASKED:
            corpus_mask_tokens(s, key, token, target);
            target += n;
            break;
        case OBJECTIVE_LAST:
            *target++ = next;
            break;
        }
    }
}
