#define _GNU_SOURCE /* syscall */
/* Identities of processes, from /proc. */
#include "host/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/digest.h"

enum { TEXT = 1024, PARENT = 4, START = 22 }; /* fields of /proc/PID/stat, counted from 1 */

/* Read a small file; returns its length, and text is NUL-terminated. */
static size_t read_small(const char *path, char text[TEXT])
{
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, TEXT - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
    return n;
}

uint64_t process_boot(void)
{
    char text[TEXT];
    uint8_t digest[DIGEST];
    uint64_t number;
    size_t n = read_small("/proc/sys/kernel/random/boot_id", text);
    if (n == 0)
        return 0;
    digest_bytes(text, n, digest);
    memcpy(&number, digest, sizeof number);
    return number;
}

/* /proc/self is the caller in whatever namespace /proc shows: there it may have another number. */
bool process_sees_own(void)
{
    char target[32];
    ssize_t n = readlink("/proc/self", target, sizeof target - 1);
    if (n <= 0)
        return false;
    target[n] = '\0';
    return strtol(target, NULL, 10) == (long)getpid();
}

/* A numeric field of /proc/PID/stat; 0: there is no such process. */
static uint64_t stat_field(long pid, int field)
{
    char path[64], text[TEXT];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    if (read_small(path, text) == 0)
        return 0;
    const char *at = strrchr(text, ')'); /* the name before it may contain anything */
    for (int k = 2; at && k < field; k++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

static uint64_t own_space(void)
{
    struct stat s;
    return stat("/proc/self/ns/pid", &s) == 0 ? (uint64_t)s.st_ino : 0;
}

struct process_id process_self(void)
{
    long pid = (long)getpid();
    return (struct process_id){.boot = process_boot(),
                               .space = own_space(),
                               .start = process_sees_own() ? stat_field(pid, START) : 0,
                               .pid = (uint32_t)pid};
}

enum process_fate process_look(const struct process_id *p)
{
    if (!p->boot || !p->space || !p->start || !p->pid || p->boot != process_boot() ||
        p->space != own_space() || !process_sees_own())
        return PROCESS_UNKNOWN;
    return stat_field((long)p->pid, START) == p->start ? PROCESS_LIVES : PROCESS_GONE;
}

static int open_pidfd(long pid)
{
    errno = ESRCH;
    return pid > 0 ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1;
}

/* Looked at once more behind the descriptor: the number may have changed its owner in between. */
int process_hold(const struct process_id *p)
{
    int fd = open_pidfd(process_look(p) == PROCESS_LIVES ? (long)p->pid : 0);
    if (fd >= 0 && process_look(p) != PROCESS_LIVES) {
        close(fd);
        fd = -1;
    }
    return fd;
}

int process_hold_own(pid_t child)
{
    return open_pidfd(child);
}

int process_hold_child(pid_t parent, pid_t child)
{
    int fd = process_sees_own() ? open_pidfd(child) : -1;
    if (fd >= 0 && stat_field(child, PARENT) != (uint64_t)parent) {
        close(fd);
        fd = -1;
    }
    return fd;
}

void process_signal(int held, int number)
{
    if (held >= 0)
        (void)syscall(SYS_pidfd_send_signal, held, number, NULL, 0);
}

void process_end(const struct process_id *p)
{
    int held = process_hold(p);
    if (held < 0 && errno == ENOSYS && process_look(p) == PROCESS_LIVES)
        (void)kill((pid_t)p->pid, SIGKILL);
    process_signal(held, SIGKILL);
    if (held >= 0)
        close(held);
}
