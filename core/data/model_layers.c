/* Layers of a model, by the names of its ops. */
#include <string.h>

#include "core/data/model.h"

/* Through its first part that is a number, else the first that ends in a digit, its last part
 * apart. */
uint32_t model_block(const char *name)
{
    uint32_t ends_in_digit = 0;
    bool digits = true, digit = false; /* of the part: all of it is, its last character is */
    for (uint32_t i = 0, part = 0; name[i]; i++) {
        if (name[i] != '.' && name[i] != '/') {
            digit = name[i] >= '0' && name[i] <= '9';
            digits = digits && digit;
            continue;
        }
        if (digits && i > part)
            return i;
        if (ends_in_digit == 0 && i > part && digit)
            ends_in_digit = i;
        part = i + 1;
        digits = true;
    }
    return ends_in_digit;
}

static uint32_t block_of(const struct model_op *o)
{
    return o->block > 0 ? o->block - 1 : model_block(o->name);
}

bool model_in_block(const struct model *m, size_t i)
{
    return block_of(&m->op[i]) > 0;
}

bool model_same_layer(const struct model *m, size_t a, size_t b)
{
    uint32_t block = block_of(&m->op[a]);
    return block > 0 && block_of(&m->op[b]) == block &&
           strncmp(m->op[a].name, m->op[b].name, block) == 0;
}

bool model_begins_layer(const struct model *m, size_t i)
{
    return i == 0 || !model_same_layer(m, i, i - 1);
}

const char *model_in_layer(const struct model *m, size_t i)
{
    const char *name = m->op[i].name;
    size_t block = block_of(&m->op[i]);
    return block > 0 ? name + block + 1 : "";
}

double model_layer_share(const struct model *m, size_t begin, size_t end, size_t i)
{
    double flop = 0, bytes = 0;
    for (size_t k = begin; k < end; k++) {
        flop += m->op[k].forward_flop;
        bytes += m->op[k].forward_bytes;
    }
    return flop > 0    ? m->op[i].forward_flop / flop
           : bytes > 0 ? m->op[i].forward_bytes / bytes
                       : 1 / (double)(end - begin);
}
