/* Folders by readlink() and mkdtemp(). */
#include "core/folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BASE = 40 }; /* longest $TMPDIR that is used */

static char elsewhere[FOLDER_PROGRAM]; /* "": nobody has said */

void folder_set_program(const char *folder)
{
    snprintf(elsewhere, sizeof elsewhere, "%s", folder);
}

enum status folder_of_program(char folder[FOLDER_PROGRAM])
{
    if (elsewhere[0]) {
        memcpy(folder, elsewhere, sizeof elsewhere);
        return STATUS_OK;
    }
    ssize_t n = readlink("/proc/self/exe", folder, FOLDER_PROGRAM - 1);
    if (n < 0)
        return error_set(STATUS_IO, "/proc/self/exe: %s", strerror(errno));
    folder[n] = '\0';
    *strrchr(folder, '/') = '\0';
    return STATUS_OK;
}

enum status folder_temporary(char folder[FOLDER_TEMPORARY])
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, FOLDER_TEMPORARY, "%s/foreline-XXXXXX",
             base && *base && strlen(base) <= BASE ? base : "/tmp");
    if (mkdtemp(folder))
        return STATUS_OK;
    enum status st = error_set(STATUS_IO, "%s: %s", folder, strerror(errno));
    folder[0] = '\0';
    return st;
}
