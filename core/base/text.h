/* text.h - copies of strings, names of tables joined for messages, looking a name up, the name
 * that was meant, and what fits into so many columns. */
#ifndef CORE_BASE_TEXT_H
#define CORE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/error.h"

/* *out becomes a malloc'd copy; what it was before is not freed. STATUS_NOMEM. */
enum status text_copy(const char *text, char **out) MUST_CHECK;

/* Does the text start with this? */
bool text_begins(const char *text, const char *with);

/* Are these the same key of settings? "_" and "-" are alike: slow_found, slow-found. */
bool text_same_key(const char *a, const char *b);

/* The names of a table's n rows as messages and help texts show them, "A, B, C". Rows are pointers
 * to structs that begin with their name. Returns text[TEXT_LIST]; what does not fit is cut off. */
enum { TEXT_LIST = 512 };
const char *text_list(const void *rows, size_t n, char text[TEXT_LIST]);
/* Append ", name" to a list of the same kind, in list[size]; what does not fit is cut off. */
void text_list_add(char *list, size_t size, const char *name);

/* Is `name` nearer to `word`, by edit distance (insertions, deletions, other letters, neighbours
 * swapped: Damerau-Levenshtein), than *best? Then *best becomes its distance. To begin with,
 * *best is text_reach(): a third of the word's letters may differ, at least one.
 *
 *     for (size_t best = text_reach(word), i = 0; i < n; i++)
 *         nearest = text_is_nearer(word, name[i], &best) ? name[i] : nearest;
 *
 * O(letters of both); only the first 63 letters count. */
bool text_is_nearer(const char *word, const char *name, size_t *best);
size_t text_reach(const char *word);

/* "; did you mean 'NAME'?", or "" without a name: the end of a message. Returns `text`. */
enum { TEXT_HINT = 96 };
const char *text_hint(const char *name, char text[TEXT_HINT]);

/* Set the pointer at `row` to the row called `name` among n of such a table ("_" and "-" are
 * alike). STATUS_INVALID "unknown WHAT 'NAME'; did you mean 'B'? known: A, B, C". */
enum status text_find(const char *what, const char *name, const void *rows, size_t n,
                      void *row) MUST_CHECK;

/* A whole number of decimal digits alone, at most `most`; false, and *out as it was: it is none. */
bool text_count(const char *text, uint64_t most, uint64_t *out);
/* A finite number with nothing behind it; false, and *out as it was: it is none. */
bool text_real(const char *text, double *out);
/* Copies the n characters of a word "NAME=VALUE" and cuts it at the sign: word[] is the name. The
 * value, in word[] too; NULL: there is no sign, or no room, and word[] is the text as far as it
 * fits. */
enum { TEXT_PAIR = 80 };
const char *text_pair(const char *text, size_t n, char word[TEXT_PAIR]);
/* The words between separators (any of these characters), at most `most`: word[] points into
 * `text`, which is cut up. How many; what is behind the last is left out. */
size_t text_split(char *text, const char *separators, char **word, size_t most);
/* Texts that somebody has given, borrowed. */
enum { TEXT_LIST_MOST = 64 };
struct text_list {
    size_t n;
    const char *item[TEXT_LIST_MOST]; /* [n] as given, in order */
};
/* The first line of `text`, as far as it fits into line[size]; where the next one begins. */
const char *text_line(const char *text, char *line, size_t size);

/* The first letter of UTF-8 text as it is shown: a blank for a control character, "?" for a byte
 * that is no UTF-8. *columns: how many places it takes, 2 for wide letters of East Asia, 0 for
 * marks over the letter before. Returns how many bytes of `text` it is, 0 at the end. */
enum { TEXT_LETTER = 5 };
size_t text_letter(const char *text, char letter[TEXT_LETTER], size_t *columns);
/* How many columns a text takes where letters have one width. */
size_t text_columns(const char *text);
/* The text as it is shown, in at most so many columns: of a longer one the middle becomes "…",
 * for names begin and end with what tells them apart. Cut, between letters, also where out[size]
 * ends. Returns `out`. */
const char *text_shorten(const char *text, size_t columns, char *out, size_t size);

/* A cell of a table of text: "'" before one that a spreadsheet would take for a formula, that is a
 * text, no number, that begins with =, +, - or @ and is more than that sign; a number is left as it
 * is. */
void text_put_guard(FILE *to, const char *text);
/* "'" where text_put_guard() puts it, else "". */
const char *text_guard(const char *text);
/* The guard, where one is needed, and the cell. */
void text_put_cell(FILE *to, const char *text);
/* The cell without the guard. */
const char *text_unguarded(const char *cell);
/* Write n characters of a text for XML or HTML, inside an element or double quotes: reserved
 * characters become entities, control characters blanks. The first NUL ends the text too. */
void text_put_xml(FILE *to, const char *text, size_t n);

/* "1,441,996": the nearest whole number, for people. Returns `text`. */
enum { TEXT_GROUPED = 32 };
const char *text_grouped(double value, char text[TEXT_GROUPED]);

/* Write words in lines of fewer than `limit` columns, the first of which begins in column `indent`
 * already; the others are indented as far. */
void text_put_wrapped(FILE *to, const char *text, int indent, int limit);
/* "memory      fits: ...": a label in 12 columns, and behind it the text, wrapped at 100. */
void text_put_answer(FILE *to, const char *label, const char *text);

/* A word as a shell reads it back: quoted when it has other characters than plain ones. */
void text_put_word(const char *word, FILE *out);

#endif
