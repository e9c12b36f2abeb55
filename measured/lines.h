/* lines.h - logs and tables: the first line that a reader recognises decides, the rest goes to it.
 * Private. */
#ifndef MEASURED_LINES_H
#define MEASURED_LINES_H

#include "measured/reader.h"

/* *found is NULL afterwards when no reader recognises a line of the first 64 MiB. Lines end
 * with \n or \r; colours of terminals are taken out; of lines longer than READER_LINE the rest is
 * left out. Same errors as a reader. */
enum status lines_read(struct bytes *b, struct measured_run *run,
                       const struct reader **found) MUST_CHECK;

#endif
