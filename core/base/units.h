/* units.h - quantities as people write them: "400Gbps", "16MiB", "1.5us", "312Tf".
 *
 * Prefixes k M G T P are powers of 1000, Ki Mi Gi Ti Pi powers of 1024. Rates are bits per second
 * with "bps" and bytes per second with "Bps"; SI base units inside: seconds, bytes, bytes per
 * second, FLOP per second. */
#ifndef CORE_BASE_UNITS_H
#define CORE_BASE_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

enum unit {
    UNIT_SECONDS, /* s, ms, us, ns, min, h, d */
    UNIT_BYTES,   /* B */
    UNIT_RATE,    /* bps, Bps -> bytes per second */
    UNIT_FLOPS,   /* f, flops (per second) */
    UNIT_FLOP,    /* flop: work */
    UNIT_COUNT,   /* none; or B: 1e9, as people say of tokens and parameters */
};

enum { MINUTE_S = 60, HOUR_S = 3600, DAY_S = 86400 };
enum { UNITS_TEXT = 32 }; /* size of a buffer that any printed quantity fits into */

/* Parse `text`; a unit is required (except for zero and for UNIT_BYTES, where bare numbers are
 * bytes). Only finite values >= 0 are accepted. Returns STATUS_INVALID with what was expected. */
enum status units_parse(enum unit unit, const char *text, double *out) MUST_CHECK;

/* A whole number as people write it: "8192", "8k", "128Ki", "1e6"; those with a prefix or point
 * up to 2^53. False, and *out as it was: it is none. */
bool units_count(const char *text, uint64_t *out);

/* Print with up to four significant digits in the largest fitting prefix (decimal; KiB MiB GiB for
 * bytes; rates in bytes per second; k M B T for counts): "50 GB/s", "1.5 us", "300B". Returns
 * `text`. */
const char *units_print(enum unit unit, double value, char text[UNITS_TEXT]);

/* The same with as many digits, four to fifteen, as tell the value from others: "23.531
 * Gflop/s". */
const char *units_print_exact(enum unit unit, double value, char text[UNITS_TEXT]);

/* The same as units_print() by value, for several quantities in one printf: units_of(UNIT_SECONDS,
 * s).text, which lives until the end of the statement. */
struct units_text {
    char text[UNITS_TEXT];
};
static inline struct units_text units_of(enum unit unit, double value)
{
    struct units_text t;
    units_print(unit, value, t.text);
    return t;
}

#endif
