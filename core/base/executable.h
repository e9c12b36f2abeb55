/* executable.h - the folder of our own executable, from which modules, workers and platforms are
 * found. */
#ifndef CORE_BASE_EXECUTABLE_H
#define CORE_BASE_EXECUTABLE_H

#include "core/base/error.h"

enum { EXECUTABLE_FOLDER = 2048 };

/* For a library, whose executable is another program: the folder where ours would be. Call it
 * before any thread looks for the folder. */
void executable_set_folder(const char *folder);
/* The folder, without a '/' at its end. STATUS_IO. */
enum status executable_folder(char folder[EXECUTABLE_FOLDER]) MUST_CHECK;

#endif
