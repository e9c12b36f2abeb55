/* leftover.h - what must not stay when a signal ends the program: temporary files and folders.
 *
 * SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGPIPE remove what is listed here and then end the process
 * as they would have; where somebody else catches or ignores one of them, that stays so. A child of
 * fork() begins with an empty list. What SIGKILL leaves is found by folder_temporary(). */
#ifndef HOST_LEFTOVER_H
#define HOST_LEFTOVER_H

#include <signal.h>

/* Between these two a file or folder is made and listed: the signals above wait until it is, also
 * those that come to another thread (that one waits for a second at most). */
void leftover_hold(sigset_t *before);
void leftover_release(const sigset_t *before);
/* List a file or a folder (with the files in it) until leftover_drop(); paths of 1,023 bytes and 64
 * at a time, what is more is not listed. `lock` is closed by leftover_drop(); -1: none. */
void leftover_add(const char *path, int lock);
void leftover_drop(const char *path);
/* List the temporary files of core/base/file.h, too, from now on. */
void leftover_watch_files(void);

#endif
