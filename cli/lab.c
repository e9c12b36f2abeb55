/* Hands a call over to foreline-lab. */
#include "cli/lab.h"

#include <stdlib.h>
#include <string.h>

#include "cli/beside.h"

bool lab_takes(const char *option, int *argc, char **argv)
{
    const size_t n = strlen(option);
    for (int i = 0; n > 0 && i < *argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], option, n) != 0 || (argv[i][n] && argv[i][n] != '='))
            continue;
        if (argv[i][n]) {
            argv[i] += n + 1;
            return true;
        }
        memmove(argv + i, argv + i + 1, (size_t)(*argc - i) * sizeof *argv); /* NULL too */
        --*argc;
        return true;
    }
    return n == 0;
}

enum status lab_become(const char *command, int argc, char **argv)
{
    char **words = calloc((size_t)argc + 3, sizeof *words);
    if (!words)
        return error_set(STATUS_NOMEM, "out of memory");
    words[1] = (char *)command; /* execv() changes no word */
    memcpy(words + (command ? 2 : 1), argv, (size_t)argc * sizeof *argv);
    enum status st = beside_become("foreline-lab", "FORELINE_LAB", words);
    free(words);
    return st;
}
