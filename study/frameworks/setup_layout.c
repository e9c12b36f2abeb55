/* Which layers a stage has: Megatron's layouts, and sizes that follow from counts. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "study/frameworks/setup.h"

enum { STAGES_MOST = 65536 };

/* One stage alone is. */
bool setup_is_even(const struct setup *s)
{
    for (size_t i = 1; i < s->stages; i++)
        if (s->cut[i] != s->cut[0])
            return false;
    return true;
}

/* ---- "Et*3|(tt|)*29m|L": E embedding, t layer, m prediction of a further token, L head and
 * loss */

struct layout_reader {
    struct setup *s;
    const char *text;
    size_t n; /* stages so far, the one that is being filled not counted */
    int64_t *cut;
    int64_t layers; /* of that stage */
};

/* Layouts are quoted up to 80 characters. */
static enum status layout_setup_error(const struct layout_reader *l)
{
    return error_set(STATUS_PARSE, "%s: got layout '%.80s', expected stages such as Et*3|tt|ttL",
                     l->s->keys->path, l->text);
}

/* Bounded, because "(t|)*N" multiplies. */
static enum status end_stage(struct layout_reader *l)
{
    if (l->n == STAGES_MOST)
        return error_set(STATUS_PARSE, "%s: layout has more than %d stages", l->s->keys->path,
                         STAGES_MOST);
    PASS(ARENA_ROOM(&l->s->keys->memory, l->cut, l->n));
    l->cut[l->n++] = l->layers;
    l->layers = 0;
    return STATUS_OK;
}

/* "*N" behind a letter or a bracket; 1 when there is none. */
static int64_t times_of(const char **at)
{
    char *end;
    if (**at != '*')
        return 1;
    int64_t times = strtoll(*at + 1, &end, 10);
    *at = end;
    return times > 0 && times <= STAGES_MOST ? times : 0;
}

/* Letters up to the end or, one level deep, up to ")". */
static enum status layout_setup_read_part(struct layout_reader *l, const char *at, const char *end,
                                          int depth)
{
    while (at < end) {
        char c = *at++;
        if (c == '(') {
            const char *close = memchr(at, ')', (size_t)(end - at));
            if (!close || depth > 0)
                return layout_setup_error(l);
            const char *behind = close + 1;
            int64_t times = times_of(&behind);
            if (times == 0)
                return layout_setup_error(l);
            for (int64_t i = 0; i < times; i++)
                PASS(layout_setup_read_part(l, at, close, depth + 1));
            at = behind;
        } else if (c == '|') {
            PASS(end_stage(l));
        } else if (strchr("tdEmLe", c)) {
            int64_t times = times_of(&at);
            if (times == 0)
                return layout_setup_error(l);
            l->layers += c == 't' || c == 'd' || c == 'e' ? times : 0;
        } else if (!strchr(", \t\"'", c)) {
            return layout_setup_error(l);
        }
    }
    return STATUS_OK;
}

/* O(stages + letters). The last stage has no bar behind it. */
enum status setup_read_layout(struct setup *s, const char *text)
{
    struct layout_reader l = {.s = s, .text = text};
    PASS(layout_setup_read_part(&l, text, text + strlen(text), 0));
    PASS(end_stage(&l));
    s->cut = l.cut;
    s->stages = l.n;
    return STATUS_OK;
}

/* "E" stands in the first stage and "L" in the last, whatever layers these have. */
enum status setup_write_layout(const struct setup *s, const char **out)
{
    struct file_text f = {0};
    *out = "";
    if (setup_is_even(s))
        return STATUS_OK;
    PASS(file_text_open(&f));
    for (size_t i = 0; i < s->stages; i++) {
        fputs(i > 0 ? "|" : "E", f.stream);
        if (s->cut[i] > 1)
            fprintf(f.stream, "t*%" PRId64, s->cut[i]);
        else if (s->cut[i] == 1)
            fputc('t', f.stream);
    }
    for (int64_t i = 0; i < s->a.predict; i++)
        fputc('m', f.stream);
    fputc('L', f.stream);
    return keys_keep(s->keys, &f, out);
}

/* ---- what counts say */

/* Equal stages, of which the first and the last may count the embedding and the head as a layer. */
static enum status layout_setup_divide(struct setup *s, int64_t layers)
{
    int64_t first = s->words.stages.count_embedding != 0, last = s->words.stages.count_head != 0;
    int64_t stages = (int64_t)s->stages, all = layers + first + last;
    if ((all % stages != 0 && !s->words.stages.uneven) || all / stages < 1)
        return error_set(
            STATUS_INVALID, "%s: %" PRId64 " layers%s are not a multiple of %" PRId64 " stages",
            s->keys->path, layers, first + last ? " with embedding and head" : "", stages);
    for (size_t i = 0; i < s->stages; i++)
        s->cut[i] = all / stages + ((int64_t)i < all % stages);
    s->cut[0] -= first;
    s->cut[s->stages - 1] -= last;
    return STATUS_OK;
}

/* --decoder-first-pipeline-num-layers and --decoder-last-...: the others are equal. */
static enum status divide_middle(struct setup *s, int64_t layers)
{
    int64_t given = (s->words.stages.first_layers > 0) + (s->words.stages.last_layers > 0);
    int64_t rest = layers - s->words.stages.first_layers - s->words.stages.last_layers,
            middle = s->pipeline - given;
    if (s->chunks > 1 || middle < 0 || rest < 0 || (middle == 0 ? rest > 0 : rest % middle != 0))
        return error_set(STATUS_INVALID,
                         "%s: %" PRId64 " layers remain after those of the first and last stage, "
                         "expected a multiple of the other %" PRId64 " stages",
                         s->keys->path, rest, middle);
    for (size_t i = 0; i < s->stages; i++)
        s->cut[i] = middle > 0 ? rest / middle : 0;
    if (s->words.stages.first_layers > 0)
        s->cut[0] = s->words.stages.first_layers;
    if (s->words.stages.last_layers > 0)
        s->cut[s->stages - 1] = s->words.stages.last_layers;
    return STATUS_OK;
}

/* With a layout the number of chunks follows from its stages. */
static enum status settle_layout(struct setup *s, int64_t layers)
{
    int64_t sum = 0;
    PASS(setup_read_layout(s, s->words.stages.layout));
    for (size_t i = 0; i < s->stages; i++)
        sum += s->cut[i];
    if ((int64_t)s->stages % s->pipeline != 0 || sum != layers)
        return error_set(STATUS_INVALID,
                         "%s: the layout has %" PRId64
                         " layers in %zu stages, but the model has %" PRId64
                         " layers and the pipeline %" PRId64 " ranks",
                         s->keys->path, sum, s->stages, layers, s->pipeline);
    s->chunks = (int64_t)s->stages / s->pipeline;
    return STATUS_OK;
}

/* The cut of `layers` layers; pipeline and chunks are known and at least 1. */
enum status setup_cut(struct setup *s, int64_t layers)
{
    if (s->words.stages.layout && *s->words.stages.layout)
        return settle_layout(s, layers);
    if (s->words.stages.chunk_layers > 0) {
        if (layers % (s->pipeline * s->words.stages.chunk_layers) != 0)
            return error_set(STATUS_INVALID,
                             "%s: %" PRId64
                             " layers cannot be divided into virtual stages of %" PRId64
                             " layers on %" PRId64 " pipeline ranks",
                             s->keys->path, layers, s->words.stages.chunk_layers, s->pipeline);
        s->chunks = layers / s->pipeline / s->words.stages.chunk_layers;
    }
    if (s->pipeline * s->chunks > STAGES_MOST)
        return error_set(STATUS_INVALID, "%s: more than %d stages", s->keys->path, STAGES_MOST);
    s->stages = (size_t)(s->pipeline * s->chunks);
    PASS(ARENA_NEW(&s->keys->memory, s->cut, s->stages));
    return s->words.stages.first_layers > 0 || s->words.stages.last_layers > 0
               ? divide_middle(s, layers)
               : layout_setup_divide(s, layers);
}
