/* screen.h - what people read: standard output and error without control characters.
 *
 * Names of files, models and hosts come from strangers, and a terminal obeys what it is sent: an
 * escape sequence moves the cursor, hides lines, or types into the terminal. So everything printed
 * to stdout and stderr goes through here: control characters but line ends and tabs, those of
 * Unicode (U+0080 to U+009F), and those that turn the direction of text become "\x1b" or "\u202e".
 * Files, also those written to "-" (core/base/file.h), JSON among them, are not touched. */
#ifndef HOST_SCREEN_H
#define HOST_SCREEN_H

#include <stddef.h>
#include <stdio.h>

/* From now on, for stdout and stderr of this process. Without memory they stay as they are. */
void screen_protect(void);

/* stderr as it was, where it is a terminal, for lines of our own numbers that are drawn again and
 * again ("\r"); NULL where it is none. */
FILE *screen_drawing(void);

/* The same for a text: at most size - 1 bytes and a NUL, whole characters. Returns the bytes of
 * `text` that were taken; those of a character that n ends in are left. */
size_t screen_escape(const char *text, size_t n, char *out, size_t size);

#endif
