/* Copies of texts, names of tables, and looking up names with a hint at the nearest one. */
#include "core/base/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"

enum status text_copy(const char *text, char **out)
{
    char *copy;
    enum status st = ARRAY_COPY(copy, text, strlen(text) + 1);
    if (st == STATUS_OK)
        *out = copy;
    return st;
}

bool text_begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Pointers to other structs are copied as bytes, for they may not be read as pointers to these. */
static const struct text_named {
    const char *name;
} * row_at(const void *rows, size_t i)
{
    const struct text_named *row;
    memcpy(&row, (const char *)rows + i * sizeof row, sizeof row);
    return row;
}

const char *text_list(const void *rows, size_t n, char text[TEXT_LIST])
{
    text[0] = '\0';
    for (size_t i = 0, used = 0; i < n && used < TEXT_LIST; i++)
        used += (size_t)snprintf(text + used, TEXT_LIST - used, "%s%s", i ? ", " : "",
                                 row_at(rows, i)->name);
    return text;
}

void text_list_add(char *list, size_t size, const char *name)
{
    size_t used = strlen(list);
    snprintf(list + used, size - used, "%s%s", used ? ", " : "", name);
}

/* strtoull() alone would take blanks and signs. */
bool text_count(const char *text, uint64_t most, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || value > most)
        return false;
    *out = value;
    return true;
}

bool text_real(const char *text, double *out)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (errno || end == text || *end || !isfinite(value))
        return false;
    *out = value;
    return true;
}

bool text_same_key(const char *a, const char *b)
{
    while (*a && (*a == '_' ? '-' : *a) == (*b == '_' ? '-' : *b))
        a++, b++;
    return *a == *b;
}

enum { LETTERS = 63 };

static size_t text_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Row i of the usual table, of which three are kept: row[i % 3][j] is the distance between the
 * first i letters of `a` and the first j of `b`. */
static size_t distance(const char *a, const char *b)
{
    size_t row[3][LETTERS + 1];
    size_t m = strnlen(a, LETTERS), n = strnlen(b, LETTERS);
    for (size_t j = 0; j <= n; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= m; i++) {
        size_t *now = row[i % 3], *before = row[(i + 2) % 3], *earlier = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= n; j++) {
            now[j] = text_least(before[j], now[j - 1]) + 1;
            now[j] = text_least(now[j], before[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = text_least(now[j], earlier[j - 2] + 1);
        }
    }
    return row[m % 3][n];
}

size_t text_reach(const char *word)
{
    size_t third = strlen(word) / 3;
    return (third > 1 ? third : 1) + 1;
}

bool text_is_nearer(const char *word, const char *name, size_t *best)
{
    size_t d = distance(word, name);
    if (d >= *best || d >= strlen(name)) /* all letters changed: not what was meant */
        return false;
    *best = d;
    return true;
}

const char *text_hint(const char *name, char text[TEXT_HINT])
{
    text[0] = '\0';
    if (name)
        snprintf(text, TEXT_HINT, "; did you mean '%.64s'?", name);
    return text;
}

enum status text_find(const char *what, const char *name, const void *rows, size_t n, void *row)
{
    char known[TEXT_LIST], hint[TEXT_HINT];
    const char *nearest = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct text_named *one = row_at(rows, i);
        if (text_same_key(one->name, name)) {
            memcpy(row, &one, sizeof one);
            return STATUS_OK;
        }
    }
    for (size_t i = 0, best = text_reach(name); i < n; i++) {
        const char *one = row_at(rows, i)->name;
        nearest = text_is_nearer(name, one, &best) ? one : nearest;
    }
    return error_set(STATUS_INVALID, "unknown %s '%.60s'%s known: %s", what, name,
                     *text_hint(nearest, hint) ? hint : ";", text_list(rows, n, known));
}

/* The letter that begins with this byte: how many bytes it has, 0 when no letter does, and the bits
 * of the first that count. */
static size_t letter_bytes(unsigned char first, uint32_t *code)
{
    size_t n = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    *code = n == 1 ? first : n == 2 ? first & 0x1fu : n == 3 ? first & 0xfu : first & 7u;
    return first < 0xf5 ? n : 0;
}

/* Unicode Standard Annex 11, "East Asian Width": blocks whose letters are wide, and the common
 * marks that stand over the letter before. */
static size_t text_letter_columns(uint32_t code)
{
    static const struct {
        uint32_t first, last;
        size_t columns;
    } block[] = {
        {0x0300, 0x036f, 0}, {0x200b, 0x200f, 0}, {0xfe00, 0xfe0f, 0},   {0x1100, 0x115f, 2},
        {0x2e80, 0xa4cf, 2}, {0xac00, 0xd7a3, 2}, {0xf900, 0xfaff, 2},   {0xfe30, 0xfe6f, 2},
        {0xff00, 0xff60, 2}, {0xffe0, 0xffe6, 2}, {0x1f300, 0x1faff, 2}, {0x20000, 0x3fffd, 2},
    };
    for (size_t i = 0; i < sizeof block / sizeof *block; i++)
        if (code >= block[i].first && code <= block[i].last)
            return block[i].columns;
    return 1;
}

size_t text_letter(const char *text, char letter[TEXT_LETTER], size_t *columns)
{
    uint32_t code;
    size_t n = letter_bytes((unsigned char)*text, &code);
    for (size_t k = 1; k < n; k++) {
        unsigned char more = (unsigned char)text[k];
        n = (more & 0xc0) == 0x80 ? n : 0; /* NUL is none either: nothing behind it is read */
        code = code << 6 | (more & 0x3fu);
    }
    bool longer = (n == 3 && code < 0x800) || (n == 4 && code < 0x10000);
    bool known = n > 0 && !longer && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000);
    bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    *columns = known ? text_letter_columns(code) : 1;
    if (!known || control)
        snprintf(letter, TEXT_LETTER, "%s", !*text ? "" : known ? " " : "?");
    else
        snprintf(letter, TEXT_LETTER, "%.*s", (int)n, text);
    return !*text ? 0 : known ? n : 1;
}

size_t text_columns(const char *text)
{
    char letter[TEXT_LETTER];
    size_t sum = 0, bytes, columns;
    for (; (bytes = text_letter(text, letter, &columns)) > 0; text += bytes)
        sum += columns;
    return sum;
}

const char *text_shorten(const char *text, size_t columns, char *out, size_t size)
{
    static const char dots[] = "…";
    char letter[TEXT_LETTER];
    size_t all = text_columns(text), head = columns / 2, n = 0, bytes, wide;
    bool cut = all > columns, left_out = false;
    size_t tail = columns > head ? columns - head - 1 : 0;
    for (size_t at = 0; (bytes = text_letter(text, letter, &wide)) > 0; text += bytes, at += wide) {
        bool kept = !cut || at + wide <= head || at >= all - tail;
        if (!kept && left_out)
            continue;
        const char *put = kept ? letter : dots;
        left_out = !kept;
        if (n + strlen(put) >= size)
            break;
        n += (size_t)snprintf(out + n, size - n, "%s", put);
    }
    out[n] = '\0';
    return out;
}

static bool is_formula(const char *text)
{
    double number;
    return *text && strchr("=+-@", *text) && text[1] && !text_real(text, &number);
}

const char *text_guard(const char *text)
{
    return is_formula(text) ? "'" : "";
}

void text_put_guard(FILE *to, const char *text)
{
    fputs(text_guard(text), to);
}

void text_put_cell(FILE *to, const char *text)
{
    text_put_guard(to, text);
    fputs(text, to);
}

const char *text_unguarded(const char *cell)
{
    return cell + (*cell == '\'' && is_formula(cell + 1));
}

void text_put_xml(FILE *to, const char *text, size_t n)
{
    for (; n > 0 && *text; text++, n--)
        if (*text == '&')
            fputs("&amp;", to);
        else if (*text == '<')
            fputs("&lt;", to);
        else if (*text == '>')
            fputs("&gt;", to);
        else if (*text == '"')
            fputs("&quot;", to);
        else
            putc((unsigned char)*text < ' ' ? ' ' : *text, to);
}

const char *text_grouped(double value, char text[TEXT_GROUPED])
{
    char digits[TEXT_GROUPED];
    size_t n = 0;
    if (!(value >= 0 && value < 1e18)) {
        snprintf(text, TEXT_GROUPED, "%.4g", value);
        return text;
    }
    size_t length = (size_t)snprintf(digits, sizeof digits, "%.0f", value);
    for (size_t i = 0; i < length; i++) {
        text[n++] = digits[i];
        if ((length - i) % 3 == 1 && i + 1 < length)
            text[n++] = ',';
    }
    text[n] = '\0';
    return text;
}

void text_put_wrapped(FILE *to, const char *text, int indent, int limit)
{
    int column = indent;
    while (*text) {
        int word = (int)strcspn(text, " ");
        if (column > indent && column + word >= limit) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
        }
        column += fprintf(to, "%s%.*s", column > indent ? " " : "", word, text);
        text += word + (text[word] == ' ');
    }
    putc('\n', to);
}

void text_put_answer(FILE *to, const char *label, const char *text)
{
    enum { INDENT = 12, LINE = 100 };
    fprintf(to, "%-*s", INDENT, label);
    text_put_wrapped(to, text, INDENT, LINE);
}

const char *text_pair(const char *text, size_t n, char word[TEXT_PAIR])
{
    snprintf(word, TEXT_PAIR, "%.*s", (int)(n < TEXT_PAIR ? n : TEXT_PAIR - 1), text);
    char *equals = strchr(word, '=');
    if (!equals || n >= TEXT_PAIR)
        return NULL;
    *equals = '\0';
    return equals + 1;
}

size_t text_split(char *text, const char *separators, char **word, size_t most)
{
    size_t n = 0;
    char *rest;
    for (char *at = strtok_r(text, separators, &rest); at && n < most;
         at = strtok_r(NULL, separators, &rest))
        word[n++] = at;
    return n;
}

const char *text_line(const char *text, char *line, size_t size)
{
    size_t length = strcspn(text, "\n");
    snprintf(line, size, "%.*s", (int)(length < size ? length : size - 1), text);
    return text + length + (text[length] == '\n');
}

void text_put_word(const char *word, FILE *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_=./:,%@";
    if (*word && word[strspn(word, plain)] == '\0') {
        fputs(word, out);
        return;
    }
    putc('\'', out);
    for (; *word; word++)
        fputs(*word == '\'' ? "'\\''" : (const char[]){*word, '\0'}, out);
    putc('\'', out);
}
