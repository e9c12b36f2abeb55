/* process.h - which process a number means, so that no other one is signalled or taken for it.
 *
 * A process id alone is not enough: it is reused, and it means another process in another PID
 * namespace. All of this reads /proc, which may be that of another namespace or not be mounted;
 * then nothing is known, and nothing may be concluded. */
#ifndef HOST_PROCESS_H
#define HOST_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Plain data of fixed size: it travels in messages and is written to files. 0 stands for
 * unknown. */
struct process_id {
    uint64_t boot;  /* of the kernel: the same number means the same kernel since the same boot */
    uint64_t space; /* inode of its PID namespace */
    uint64_t start; /* when it began, in clock ticks since the boot */
    uint32_t pid;   /* in that namespace */
    uint32_t unused;
};

/* A number for this boot of this kernel; processes that get the same one share CLOCK_MONOTONIC.
 * 0: unknown. */
uint64_t process_boot(void);
/* This process. */
struct process_id process_self(void);

/* Does /proc show our own PID namespace? Without that, numbers in it are others'. */
bool process_sees_own(void);

enum process_fate { PROCESS_UNKNOWN, PROCESS_GONE, PROCESS_LIVES };
/* UNKNOWN where the process belongs to another kernel or namespace, or a field is unknown. */
enum process_fate process_look(const struct process_id *p);

/* A descriptor that stands for the process even after its number was reused; the caller closes it.
 * -1 unless it is provably this process: PROCESS_LIVES, and still so once the descriptor is there.
 * Kernels before 5.3 have no such descriptors. */
int process_hold(const struct process_id *p);
/* A child of ours that nobody has waited for, whose number therefore is nobody else's. */
int process_hold_own(pid_t child);
/* A child of another process, if /proc says so. -1 when it is not its child (any more). */
int process_hold_child(pid_t parent, pid_t child);
/* SIGKILL if it is provably this process; kernels before 5.3 are asked by number right after the
 * proof. */
void process_end(const struct process_id *p);
/* Send a signal to a held process; -1 and a process that has ended are accepted. */
void process_signal(int held, int number);

#endif
