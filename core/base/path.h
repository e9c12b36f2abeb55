/* path.h - how one file names another, without naming the machine that it was written on.
 *
 * A file that is written names other files relative to its own folder, so that a folder can be
 * moved with all that is in it. A reference is a name (gpt-tiny, two-racks, rail:nodes=4) or a
 * path; it counts as a path when there is a regular file of that name with a '/' or a '.' in it.
 * Platforms may have changes behind the path, "x.xml@uplink.bandwidth=10Gbps", and models choices:
 * "config.json:tokens=8192". */
#ifndef CORE_BASE_PATH_H
#define CORE_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

/* What `file` ("-": standard output, which counts as a file in the current directory) should call
 * `reference`, which is a name or a path seen from the current directory. Names are copied.
 * Symbolic links to folders are followed, as "..", which the result may contain, follows them.
 *
 *   out   malloc'd
 *
 * Errors: STATUS_NOMEM. */
enum status path_reference(const char *reference, const char *file, char **out) MUST_CHECK;

/* The inverse: a name, or a path seen from the current directory, for what `file` calls
 * `reference`. A relative path is searched for beside `file`, then from the current directory, from
 * which foreline 0.1.0 counted; an absolute one is copied. *out is malloc'd; STATUS_NOMEM. */
enum status path_find(const char *reference, const char *file, char **out) MUST_CHECK;

/* A reference seen from any directory: its path made absolute (symbolic links of folders are
 * followed), names copied. *out is malloc'd; STATUS_NOMEM. */
enum status path_absolute(const char *reference, char **out) MUST_CHECK;

/* A name, or how a person in the current directory would call the file: path_find() without "..",
 * and path_label() when that is absolute. For texts and for grouping, not for opening. *out is
 * malloc'd; STATUS_NOMEM. */
enum status path_seen(const char *reference, const char *file, char **out) MUST_CHECK;

/* May a file or folder be called so, as given: not "", not hidden, without '/' and control
 * characters, at most 200 bytes? */
bool path_is_name(const char *name);

/* The file that a reference begins with ("p.xml" of "p.xml:nic=10Gbps"), cut to `size`; false: it
 * is a name, or no file is there. */
bool path_file(const char *reference, char *out, size_t size);

/* SHA-256 of the file behind a reference, hexadecimal; "" when it is a name or cannot be read. */
enum { PATH_HASH = 65 };
void path_hash(const char *reference, char hex[PATH_HASH]);

/* A word of a command line as it should stand in an output file: an absolute path, also behind the
 * first '=' of the word, relative to the current directory, or, when the two share no folder, only
 * its last component. Everything else stays. At most `size` bytes with the NUL are written. */
void path_label(const char *word, char *out, size_t size);

#endif
