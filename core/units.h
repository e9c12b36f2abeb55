/* units.h - quantities as people write them: "400Gbps", "16MiB", "1.5us", "312Tf".
 *
 * Prefixes k M G T P are powers of 1000, Ki Mi Gi Ti Pi powers of 1024. Rates are bits per second
 * with "bps" and bytes per second with "Bps"; SI base units inside: seconds, bytes, bytes per
 * second, FLOP per second. */
#ifndef CORE_UNITS_H
#define CORE_UNITS_H

#include <stdint.h>

#include "core/error.h"

enum unit {
    UNIT_SECONDS, /* s, ms, us, ns, min, h */
    UNIT_BYTES,   /* B */
    UNIT_RATE,    /* bps, Bps -> bytes per second */
    UNIT_FLOPS,   /* f, flops (per second) */
    UNIT_FLOP,    /* flop: work */
};

enum { UNITS_TEXT = 32 }; /* size of a buffer that any printed quantity fits into */

/* Parse `text`; a unit is required (except for zero and for UNIT_BYTES, where bare numbers are
 * bytes). Only finite values >= 0 are accepted. Returns STATUS_INVALID with what was expected. */
enum status units_parse(enum unit unit, const char *text, double *out) MUST_CHECK;

/* Print with three or four significant digits in the largest fitting prefix (decimal prefixes,
 * but KiB MiB GiB for bytes, bits for rates below 1 TB/s given in multiples of bits only when
 * `unit` is UNIT_RATE: printed in GB/s). `text` has UNITS_TEXT bytes. Returns `text`. */
const char *units_print(enum unit unit, double value, char text[UNITS_TEXT]);

#endif
