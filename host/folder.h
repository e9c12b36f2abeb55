/* folder.h - temporary folders of our own. */
#ifndef HOST_FOLDER_H
#define HOST_FOLDER_H

#include "core/base/error.h"

enum { FOLDER_TEMPORARY = 512, FOLDER_FILE = FOLDER_TEMPORARY + 24 };

extern const char folder_marker[];
/* Make a new folder, for this user alone, below the first of $TMPDIR, $XDG_RUNTIME_DIR and /tmp
 * that is set; it is the caller's to remove, and goes when a signal ends us. It is called
 * foreline-tmp-XXXXXX, is locked as long as this process lives, and first of all a file
 * `folder_marker` in it says who made it (user, boot, PID namespace, process, its start). Folders
 * that are provably such and whose maker was killed under this boot are removed on the way;
 * nothing else is ever touched. STATUS_IO (one of them is too long for `folder`, too), and
 * `folder` is "". */
enum status folder_temporary(char folder[FOLDER_TEMPORARY]) MUST_CHECK;
/* Remove it with all that is in it, and set `folder` to ""; "" is accepted. */
void folder_remove(char folder[FOLDER_TEMPORARY]);
/* FOLDER/NAME of a name of up to 20 bytes; returns `path`. */
const char *folder_file(const char folder[FOLDER_TEMPORARY], const char *name,
                        char path[FOLDER_FILE]);

#endif
