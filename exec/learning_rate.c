/* Policies of the learning rate. */
#include "exec/learning_rate.h"

#include <math.h>

#include "core/base/keyed.h"

static const struct keyed_name constant = {"constant"}, step = {"step"},
                               polynomial = {"polynomial"}, exponential = {"exponential"};
static const struct keyed_name *const names[LEARNING_RATES] = {
    [RATE_CONSTANT] = &constant,
    [RATE_STEP] = &step,
    [RATE_POLYNOMIAL] = &polynomial,
    [RATE_EXPONENTIAL] = &exponential,
};

enum { ALL = (1 << LEARNING_RATES) - 1 };
static const double most = 1e9;

const char *learning_rate_name(size_t i)
{
    return i < LEARNING_RATES ? names[i]->name : NULL;
}

enum status learning_rate_parse(const char *text, struct learning_rate *out)
{
#define NUMBER(key, of, member, least, most)                                                       \
    KEYED_NUMBER(key, of, struct learning_rate, member, least, most)
    const struct keyed_field field[] = {
        NUMBER("epoch", ALL, epoch, 1, most),
        NUMBER("warmup", ALL, warmup, 0, most),
        NUMBER("every", 1 << RATE_STEP, every, 1, most),
        NUMBER("factor", 1 << RATE_STEP | 1 << RATE_EXPONENTIAL, factor, 0, 1),
        NUMBER("power", 1 << RATE_POLYNOMIAL, power, 0, 100),
        NUMBER("epochs", 1 << RATE_POLYNOMIAL | 1 << RATE_EXPONENTIAL, epochs, 1, most),
    };
#undef NUMBER
    struct learning_rate r = {.epoch = 1, .every = 30, .factor = -1, .power = 2};
    size_t which;
    PASS(keyed_read("learning rate policy", text, names, LEARNING_RATES, field,
                    sizeof field / sizeof *field, &which, &r));
    r.kind = (enum learning_rate_kind)which;
    if (r.factor < 0)
        r.factor = r.kind == RATE_STEP ? 0.1 : 0.97;
    if (r.epochs < 1 && r.kind == RATE_POLYNOMIAL)
        return error_set(STATUS_INVALID, "learning rate policy 'polynomial' needs epochs=N");
    r.epochs = r.epochs < 1 ? 1 : r.epochs;
    *out = r;
    return STATUS_OK;
}

enum status learning_rate_check(const char *text)
{
    struct learning_rate r;
    return learning_rate_parse(text, &r);
}

double learning_rate_factor(const struct learning_rate *r, uint32_t at)
{
    if (r->epoch <= 0) /* {0} */
        return 1;
    double epoch = floor(at / r->epoch);
    if (epoch < r->warmup)
        return fmin(1, (at + 1.0) / (r->warmup * r->epoch));
    switch (r->kind) {
    case RATE_STEP:
        return pow(r->factor, floor(epoch / r->every));
    case RATE_POLYNOMIAL:
        return epoch < r->epochs ? pow(1 - epoch / r->epochs, r->power) : 0;
    case RATE_EXPONENTIAL:
        return pow(r->factor, epoch / r->epochs);
    default:
        return 1;
    }
}
