/* Other programs of this package, in the place of this one. */
#include "cli/beside.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "core/base/executable.h"

enum status beside_become(const char *program, const char *option, char **words)
{
    char folder[EXECUTABLE_FOLDER], path[EXECUTABLE_FOLDER + 32];
    PASS(executable_folder(folder));
    snprintf(path, sizeof path, "%s/%.30s", folder, program);
    words[0] = path;
    execv(path, words);
    words[0] = NULL;
    if (errno == ENOENT)
        return error_set(STATUS_UNSUPPORTED,
                         "%s is not installed; install %s, or build foreline with -D%s=ON", path,
                         program, option);
    return error_set(STATUS_IO, "%s: %s", path, strerror(errno));
}
