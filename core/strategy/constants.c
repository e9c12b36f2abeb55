/* The table of constants, and the same table with other values. */
#include "core/strategy/constants.h"

#include <math.h>

const struct constant_row constant_rows[CONSTANTS] = {
#define CONSTANT(id, shipped, prior, width, least, most, help, source, fitted)                     \
    {#id, shipped, prior, width, least, most, help, source, fitted},
#include "core/strategy/constants.def"
#undef CONSTANT
};

struct constants constants_shipped(void)
{
    struct constants c;
    for (size_t k = 0; k < CONSTANTS; k++)
        c.value[k] = constant_rows[k].shipped;
    return c;
}

struct constants constants_prior(void)
{
    struct constants c;
    for (size_t k = 0; k < CONSTANTS; k++)
        c.value[k] = constant_rows[k].prior;
    return c;
}

/* Why, and what the columns are. */
static const char head[] =
    "/* Constants of kernels and frameworks (constants.h). Written by\n"
    " *\n"
    " *     foreline lab scoreboard SETS --fit > core/strategy/constants.def\n"
    " *\n"
    " * which changes the second column and the last one, and nothing else. A row: name; shipped\n"
    " * value; value a priori, how sure that is (standard deviation of its logarithm), least and\n"
    " * most; meaning; source of the value a priori; what the shipped one was fitted to. */\n"
    "/* clang-format off */\n";

/* In two digits, or three behind a 1, which are as good. */
static int digits_of(double value)
{
    double first = value / pow(10, floor(log10(value)));
    return first < 2 ? 3 : 2;
}

void constants_write(const struct constants *c, const char *const fitted[CONSTANTS], FILE *to)
{
    fputs(head, to);
    for (size_t k = 0; k < CONSTANTS; k++) {
        const struct constant_row *r = &constant_rows[k];
        fprintf(to, "CONSTANT(%s, %.*g, %g, %g, %g, %g,\n", r->name, digits_of(c->value[k]),
                c->value[k], r->prior, r->width, r->least, r->most);
        fprintf(to, "         \"%s\",\n         \"%s\",\n         \"%s\")\n", r->help, r->source,
                fitted[k]);
    }
}
