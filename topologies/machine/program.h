/* program.h - formats of machines that programs of tools/ read. Their file is checked by our
 * readers of JSON and YAML and goes to the program's standard input; what the program answers is
 * read as any other file (machine_json.c). */
#ifndef TOPOLOGIES_MACHINE_PROGRAM_H
#define TOPOLOGIES_MACHINE_PROGRAM_H

#include "topologies/machine/machine.h"

struct json_at;

extern const char machine_json_format[];
enum { MACHINE_JSON_VERSION = 1 };

/* A machine of "nodes", "parts" and "links", and what is inside of its nodes, into an empty one
 * that has its format and path. STATUS_PARSE "path:line: what". */
enum status machine_json_read(const struct json_at *root, struct machine *m) MUST_CHECK;

/* Read a file by the format's program, within a minute (limit_wait()) and 48 MiB of answer
 * (limit_size()). STATUS_PARSE: what is wrong with the file, "path:line: what"; STATUS_UNSUPPORTED:
 * python3 or the program is not installed; STATUS_EXTERNAL: the program failed. */
enum status machine_program_read(const struct machine_format *f, const struct machine_source *s,
                                 struct machine *m) MUST_CHECK;

#endif
