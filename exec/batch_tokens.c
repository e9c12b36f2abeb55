/* Training data of a run, drawn as its ranks draw them, into a file. */
#include "exec/batch_tokens.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "exec/corpus.h"
#include "exec/device/cpu/stage_parts.h"

static void batch_tokens_put(FILE *f, int32_t value)
{
    uint32_t v = (uint32_t)value;
    for (int k = 0; k < 4; k++, v >>= 8)
        fputc((int)(v & 255), f);
}

/* Targets in the shape of tokens: where there is one per sample, it belongs to the last token. */
static void put_targets(FILE *f, const struct batch_shape *s, const int32_t *target)
{
    for (size_t b = 0; b < s->samples; b++)
        for (size_t t = 0; t < s->tokens; t++)
            if (s->objective != OBJECTIVE_LAST)
                batch_tokens_put(f, target[b * s->tokens + t]);
            else
                batch_tokens_put(f, t + 1 < s->tokens ? -1 : target[b]);
}

enum status batch_tokens_write(const struct model *m, const struct program *p, const char *text,
                               uint32_t first, size_t steps, const char *path)
{
    enum status st = STATUS_OK;
    struct corpus corpus = {0};
    struct file_out f = {0};
    int32_t *token = NULL;
    struct stage s = {.model = m, .program = p, .layout.batch = p->microbatch_size};
    if (text)
        TRY(corpus_read(text, &corpus));
    s.corpus = text ? &corpus : corpus_shipped();
    TRY(stage_find_data(&s));
    size_t n = s.layout.data.samples * s.layout.data.tokens;
    TRY(ARRAY_NEW(token, 2 * n));
    TRY(file_create(path, &f));
    for (size_t k = 0; k < steps; k++)
        for (uint32_t b = 0; b < p->microbatches; b++) {
            batch_fill(s.corpus, &s.layout.data, p->seed, first + (uint32_t)k, b, token, token + n);
            for (size_t i = 0; i < n; i++)
                batch_tokens_put(f.stream, token[i]);
            put_targets(f.stream, &s.layout.data, token + n);
        }
    TRY(file_commit(&f));
out:
    file_discard(&f);
    free(token);
    corpus_free(&corpus);
    return st;
}
