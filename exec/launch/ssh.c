/* Workers on other machines, a session of ssh for each. A worker whose launcher is gone ends by
 * itself, so that nothing stays there when a session is cut. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "exec/launch/run.h"

bool launch_by_ssh(const struct launch_state *run)
{
    return run->options->hosts && strcmp(launch_transport(run), "mpi") != 0;
}

enum status launch_make_remote(const struct launch_state *run, uint32_t rank,
                               char *const *environment, size_t settings, char *const *argument,
                               struct remote *out)
{
    char name[32], here[4096];
    struct file_out f;
    size_t local, n = 0;
    const char *host = hosts_of(&run->hosts, rank, &local);
    if (!launch_find_program("ssh", out->ssh, sizeof out->ssh))
        return error_set(
            STATUS_IO, "ssh not found, so rank %u cannot be started on %s; install openssh-client",
            rank, host);
    if (!getcwd(here, sizeof here))
        return error_set(STATUS_IO, "working directory: %s", strerror(errno));
    snprintf(name, sizeof name, "rank-%u.sh", rank);
    folder_file(run->files.directory, name, out->script);
    PASS(file_create(out->script, &f));
    for (size_t i = 0; i < settings; i++) {
        fputs("export ", f.stream);
        text_put_word(environment[i], f.stream);
        putc('\n', f.stream);
    }
    fputs("cd ", f.stream);
    text_put_word(here, f.stream);
    fputs(" || exit\nexec", f.stream);
    for (size_t i = 0; argument[i]; i++) {
        putc(' ', f.stream);
        text_put_word(argument[i], f.stream);
    }
    putc('\n', f.stream);
    PASS(file_commit(&f));
    const char *const word[] = {out->ssh, "-o", "BatchMode=yes", host, "sh", out->script, NULL};
    for (; n < sizeof word / sizeof *word; n++)
        out->line[n] = (char *)(uintptr_t)word[n]; /* execve() does not change it */
    return STATUS_OK;
}
