/* Optimizers by name, with their numbers. */
#include "core/strategy/optimizer.h"

#include <string.h>

#include "core/base/keyed.h"

static const struct keyed_name gradient_descent = {"sgd"}, adam = {"adam"};
static const struct keyed_name *const names[OPTIMIZERS] = {&adam, &gradient_descent};
enum { ADAM = 1, SGD = 2, BOTH = ADAM | SGD };

static const struct keyed_field fields[] = {
    KEYED_NUMBER("momentum", SGD, struct optimizer, momentum, 0, 0.9999),
    KEYED_NUMBER("nesterov", SGD, struct optimizer, nesterov, 0, 1),
    KEYED_NUMBER("decay", BOTH, struct optimizer, decay, 0, 1e3),
    KEYED_NUMBER("moment-bits", ADAM, struct optimizer, moment_bits, 16, 32),
    KEYED_NUMBER("clip", BOTH, struct optimizer, clip, 0, 1e9),
    KEYED_NUMBER("loss-scale", BOTH, struct optimizer, loss_scale, 1e-9, 1e9),
};

const char *optimizer_name(size_t i)
{
    return i < OPTIMIZERS ? names[i]->name : NULL;
}

enum status optimizer_of(const char *text, struct optimizer *out)
{
    struct optimizer o = {.loss_scale = 1, .moment_bits = 32};
    size_t which;
    PASS(keyed_read("optimizer", text, names, OPTIMIZERS, fields, sizeof fields / sizeof *fields,
                    &which, &o));
    o.adam = names[which] == &adam;
    if (o.nesterov != 0 && o.nesterov != 1)
        return error_set(STATUS_INVALID, "optimizer sgd: nesterov is %g, expected 0 or 1",
                         (double)o.nesterov);
    if (o.nesterov == 1 && !(o.momentum > 0))
        return error_set(STATUS_INVALID, "optimizer sgd: nesterov=1 needs momentum above 0");
    if (o.moment_bits != 16 && o.moment_bits != 32)
        return error_set(STATUS_INVALID, "optimizer adam: moment-bits is %g, expected 16 or 32",
                         (double)o.moment_bits);
    *out = o;
    return STATUS_OK;
}

enum status optimizer_check(const char *text)
{
    struct optimizer o;
    return optimizer_of(text, &o);
}

bool optimizer_is_tuned(const char *text)
{
    return strchr(text, ':') != NULL;
}

const char *optimizer_name_of(const char *text)
{
    return strncmp(text, adam.name, strlen(adam.name)) == 0 ? adam.name : gradient_descent.name;
}

int optimizer_moments(const char *text)
{
    struct optimizer o;
    if (optimizer_name_of(text) == adam.name)
        return 2;
    return optimizer_is_tuned(text) && optimizer_of(text, &o) == STATUS_OK && o.momentum > 0;
}

int64_t optimizer_moment_bytes(const char *text)
{
    struct optimizer o;
    bool half =
        optimizer_is_tuned(text) && optimizer_of(text, &o) == STATUS_OK && o.moment_bits < 32;
    return half ? 2 : 4;
}
