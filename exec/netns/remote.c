/* How mpirun gets into the namespaces: a program that it takes for a remote shell. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "exec/netns/inside.h"

/* A name that nsenter can open after mpirun has closed our descriptors. */
static enum status name_space(int fd, size_t node)
{
    char from[64], to[64];
    snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
    snprintf(to, sizeof to, "/dev/shm/net-%zu", node);
    int file = open(to, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (file >= 0)
        close(file);
    if (file < 0 || mount(from, to, NULL, MS_BIND, NULL) != 0)
        return error_set(STATUS_IO, "%s: %s", to, strerror(errno));
    return STATUS_OK;
}

/* ssh [OPTION]... HOST COMMAND: each node has a host name and temporary files of its own, which
 * Open MPI tells its daemons apart by. */
static void write_shell(const struct wiring *w, FILE *f)
{
    char address[INSIDE_ADDRESS];
    fprintf(f, "#!/bin/sh\nwhile case $1 in -*) true ;; *) false ;; esac; do shift; done\n"
               "address=$1\nshift\ncase $address in\n");
    for (size_t i = 0; i < w->nodes; i++)
        fprintf(f, "%s) node=%zu name=%s ;;\n", build_address(w->space[i].first, address), i,
                w->space[i].name);
    fprintf(f, "*) echo \"no host $address\" >&2; exit 255 ;;\nesac\n"
               "export TMPDIR=/dev/shm/tmp-$node\nmkdir -p $TMPDIR\n"
               "exec nsenter --net=/dev/shm/net-$node unshare --uts sh -c "
               "\"hostname $name; $*\"\n");
}

enum status remote_prepare(const struct built *b)
{
    enum status st = STATUS_OK;
    struct file_out f = {0};
    PASS(file_create(remote_shell, &f));
    (void)fchmod(fileno(f.stream), 0700);
    write_shell(b->w, f.stream);
    PASS(file_commit(&f));
    for (size_t i = 0; i < b->w->nodes && st == STATUS_OK; i++)
        st = name_space(b->fd[i], i);
    return st;
}

/* mpirun numbers ranks host by host: nodes must have theirs side by side. */
enum status remote_hosts(const struct wiring *w, char **out)
{
    char address[INSIDE_ADDRESS];
    size_t n = 0;
    *out = NULL;
    for (uint32_t r = 0; r + 1 < w->ranks; r++)
        if (w->space_of[r + 1] < w->space_of[r])
            return STATUS_OK;
    PASS(ARRAY_NEW(*out, w->nodes * (INSIDE_ADDRESS + 12) + 1));
    for (size_t i = 0; i < w->nodes; i++)
        n += (size_t)sprintf(*out + n, "%s%s:%u", i ? "," : "",
                             build_address(w->space[i].first, address), w->space[i].ranks);
    return STATUS_OK;
}
