/* folder.h - folders that the program has to find or to make for itself. */
#ifndef CORE_FOLDER_H
#define CORE_FOLDER_H

#include "core/error.h"

enum { FOLDER_PROGRAM = 2048, FOLDER_TEMPORARY = 64 };

/* In a library, whose program is somebody else's: the folder where the executable would be. */
void folder_set_program(const char *folder);
/* The folder of our own executable, without a '/' at its end. STATUS_IO. */
enum status folder_of_program(char folder[FOLDER_PROGRAM]) MUST_CHECK;

/* Make a new folder below $TMPDIR, or /tmp where that is not set or too long for `folder`; it is
 * the caller's to remove. STATUS_IO, and `folder` is "". */
enum status folder_temporary(char folder[FOLDER_TEMPORARY]) MUST_CHECK;

#endif
