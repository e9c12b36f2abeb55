/* interrupt.h - Ctrl-C as a wish to finish with what there is. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

/* From now on SIGINT sets the flag that is returned, and nothing else. */
const volatile int *interrupt_catch(void);
/* Has it come since? Also after interrupt_release(). */
bool interrupt_came(void);
/* SIGINT does again what it did before. */
void interrupt_release(void);
/* End by the signal after all, with status 130 of SIGINT, so that shells stop their loops too. */
void interrupt_end(int signal);

#endif
