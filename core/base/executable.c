/* The folder of the executable by readlink(). */
#include "core/base/executable.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char elsewhere[EXECUTABLE_FOLDER]; /* "": executable_set_folder() was not called */

void executable_set_folder(const char *folder)
{
    snprintf(elsewhere, sizeof elsewhere, "%s", folder);
}

enum status executable_folder(char folder[EXECUTABLE_FOLDER])
{
    if (elsewhere[0]) {
        memcpy(folder, elsewhere, sizeof elsewhere);
        return STATUS_OK;
    }
    ssize_t n = readlink("/proc/self/exe", folder, EXECUTABLE_FOLDER - 1);
    if (n < 0)
        return error_set(STATUS_IO, "cannot find the program itself: /proc/self/exe: %s",
                         strerror(errno));
    folder[n] = '\0';
    *strrchr(folder, '/') = '\0';
    return STATUS_OK;
}
