/* SIGINT as a flag that long commands look at. */
#include "cli/interrupt.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static volatile sig_atomic_t interrupted; /* a signal handler has no other way */
static struct sigaction before;

static void interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

const volatile int *interrupt_catch(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = interrupt;
    interrupted = 0;
    sigaction(SIGINT, &action, &before);
    return &interrupted;
}

bool interrupt_came(void)
{
    return interrupted;
}

void interrupt_release(void)
{
    sigaction(SIGINT, &before, NULL);
}

void interrupt_end(int number)
{
    fflush(stdout);
    signal(number, SIG_DFL);
    raise(number);
}
