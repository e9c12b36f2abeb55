#include "tests/process.h"

#include <dirent.h>
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cmocka.h"

size_t process_descriptors(void)
{
    size_t n = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

bool process_childless(void)
{
    return waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD;
}

struct diverted process_divert(void)
{
    struct diverted d = {.file = tmpfile()};
    assert_non_null(d.file);
    fflush(stdout);
    d.out = dup(STDOUT_FILENO);
    d.err = dup(STDERR_FILENO);
    dup2(fileno(d.file), STDOUT_FILENO);
    dup2(fileno(d.file), STDERR_FILENO);
    return d;
}

long process_restore(struct diverted *d)
{
    fflush(stdout);
    dup2(d->out, STDOUT_FILENO);
    dup2(d->err, STDERR_FILENO);
    close(d->out);
    close(d->err);
    long n = (long)lseek(fileno(d->file), 0, SEEK_END);
    fclose(d->file);
    return n;
}
