/* The table of what a picture's look is made of, and the names that it shows. */
#include "plots/style.h"

#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "plots/figure.h"

/* ---- reading */

/* "640x480": each side from SIDE_LEAST to SIDE_MOST pixels of 1/96 inch; "8.5x6cm". Without a size
 * of its letters, a narrow one has smaller letters. */
static enum status read_size(const char *text, struct plot_style *out)
{
    enum { SIDE_LEAST = 200, SIDE_MOST = 8000 };
    int width = 0, height = 0, end = 0;
    float width_cm = 0, height_cm = 0;
    double scale = out->scale > 0 ? out->scale : 1;
    if (sscanf(text, "%6fx%6fcm%n", &width_cm, &height_cm, &end) == 2 && end > 0 && width_cm >= 1 &&
        width_cm < 160 && height_cm >= 1 && height_cm < 160) {
        double pixels = width_cm * FIGURE_DPI / 2.54;
        if (out->scale <= 0)
            out->scale = scale = fmin(pixels / FIGURE_COLUMN, 1);
        width = (int)lround(pixels / scale);
        height = (int)lround((double)width * height_cm / width_cm);
    } else if (sscanf(text, "%4dx%4d%n", &width, &height, &end) == 2) {
        width = (int)lround(width / scale);
        height = (int)lround(height / scale);
    }
    if (text[end] || width < SIDE_LEAST || height < SIDE_LEAST || width > SIDE_MOST ||
        height > SIDE_MOST)
        return error_set(STATUS_USAGE,
                         "--size: got '%.40s', expected WIDTHxHEIGHT, %.0f to %.0f pixels each, "
                         "such as 640x400 or 8.5x6cm",
                         text, ceil(SIDE_LEAST * scale), SIDE_MOST * scale);
    out->width = width;
    out->height = height;
    return STATUS_OK;
}

/* A number for a word. `words` end in NULL. */
static enum status read_word(const char *option, const char *text, const char *const *words,
                             int *out)
{
    char list[160] = "";
    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], text) == 0) {
            *out = i;
            return STATUS_OK;
        }
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s",
                 !i             ? ""
                 : words[i + 1] ? ", "
                                : " or ",
                 words[i]);
    }
    return error_set(STATUS_USAGE, "--%s: got '%.40s', expected %s", option, text, list);
}

/* Sizes that journals, rooms and screens ask for. Letters of a paper are 7.5 points high in a
 * column of 8.5 cm, with 300 pixels per inch; a slide has 18 points at a width of 25.4 cm. */
static enum status read_style(const char *text, struct plot_style *out)
{
    static const char *const words[] = {"paper", "slide", "web", NULL};
    static const struct {
        double width_cm, points, density, stroke;
    } looks[] = {{8.5, 7.5, 3.125, 1}, {25.4, 18, 2, 1.4}, {0, 9.75, 2, 1}};
    int i;
    PASS(read_word("style", text, words, &i));
    out->scale = looks[i].points / (0.75 * FIGURE_FONT);
    out->width = looks[i].width_cm > 0
                     ? (int)lround(looks[i].width_cm / 2.54 * FIGURE_DPI / out->scale)
                     : FIGURE_WIDTH;
    out->density = looks[i].density;
    out->stroke = looks[i].stroke;
    return STATUS_OK;
}

/* "NAME", "NAME:SIZE", ":SIZE"; the size in points. What has a width in centimetres keeps it. */
static enum status read_font(const char *text, struct plot_style *out)
{
    enum { NAME_MOST = 60, LEAST = 4, MOST = 72 };
    size_t n = strcspn(text, ":"), known = 0;
    double points = 0, before = out->scale > 0 ? out->scale : 1;
    while (known < n && (isalnum((unsigned char)text[known]) || strchr(" -._", text[known])))
        known++;
    if (known < n || n > NAME_MOST || (n == 0 && !text[n]))
        return error_set(STATUS_USAGE,
                         "--font: got '%.40s', expected NAME or NAME:SIZE such as Times:9 (NAME: "
                         "letters, digits, blanks and -._)",
                         text);
    if (text[n] && (!text_real(text + n + 1, &points) || points < LEAST || points > MOST))
        return error_set(STATUS_USAGE, "--font: got the size '%.40s', expected %d to %d points",
                         text + n + 1, LEAST, MOST);
    out->font = n > 0 ? text : NULL;
    if (points > 0) {
        out->scale = points / (0.75 * FIGURE_FONT);
        out->width = (int)lround((out->width ? out->width : FIGURE_COLUMN) * before / out->scale);
    }
    return STATUS_OK;
}

static enum status read_log(const char *text, struct plot_style *out)
{
    static const char *const words[] = {"x", "y", "xy", NULL};
    int i;
    PASS(read_word("log", text, words, &i));
    out->log_x = i != 1;
    out->log_y = i != 0;
    return STATUS_OK;
}

static enum status read_legend(const char *text, struct plot_style *out)
{
    static const char *const words[] = {"top", "bottom", "right", "none", NULL};
    int i;
    PASS(read_word("legend", text, words, &i));
    out->legend = (enum plot_legend)i;
    return STATUS_OK;
}

static const char *const error_words[] = {"none", "range", "iqr", "p5-p95", "ci", NULL};

const char *style_errors(enum plot_errors errors)
{
    return errors == ERRORS_KIND ? "" : error_words[errors - ERRORS_NONE];
}

static enum status read_errors(const char *text, struct plot_style *out)
{
    int i;
    PASS(read_word("error-bars", text, error_words, &i));
    out->errors = (enum plot_errors)(i + ERRORS_NONE);
    return STATUS_OK;
}

static enum status read_note(const char *text, struct plot_style *out)
{
    static const char *const words[] = {"below", "none", NULL};
    int i;
    PASS(read_word("note", text, words, &i));
    out->no_note = i == 1;
    return STATUS_OK;
}

static enum status read_title(const char *text, struct plot_style *out)
{
    out->title = text;
    return STATUS_OK;
}

static enum status read_xlabel(const char *text, struct plot_style *out)
{
    out->xlabel = text;
    return STATUS_OK;
}

static enum status read_ylabel(const char *text, struct plot_style *out)
{
    out->ylabel = text;
    return STATUS_OK;
}

/* In the order in which they are read: a size in pixels depends on the letters'. read NULL: a kind
 * reads it. */
static const struct style_option {
    const char *option;
    unsigned style;
    size_t wish; /* of struct plot_wishes */
    enum status (*read)(const char *text, struct plot_style *out);
} options[] = {
    {"title", 0, offsetof(struct plot_wishes, title), read_title},
    {"xlabel", STYLE_XLABEL, offsetof(struct plot_wishes, xlabel), read_xlabel},
    {"ylabel", STYLE_YLABEL, offsetof(struct plot_wishes, ylabel), read_ylabel},
    {"style", 0, offsetof(struct plot_wishes, style), read_style},
    {"font", 0, offsetof(struct plot_wishes, font), read_font},
    {"size", STYLE_SIZE, offsetof(struct plot_wishes, size), read_size},
    {"log", STYLE_LOG, offsetof(struct plot_wishes, log), read_log},
    {"legend", STYLE_LEGEND, offsetof(struct plot_wishes, legend), read_legend},
    {"note", 0, offsetof(struct plot_wishes, note), read_note},
    {"error-bars", STYLE_ERRORS, offsetof(struct plot_wishes, errors), read_errors},
    {"facet", STYLE_FACET, offsetof(struct plot_wishes, facet), NULL},
    {"order", STYLE_ORDER, offsetof(struct plot_wishes, order), NULL},
};

static enum status refuse(const char *name, const struct style_option *o,
                          const char *(*obeys)(size_t i, unsigned style))
{
    char list[200] = "";
    const char *kind;
    for (size_t i = 0, n = 0; (kind = obeys(i, o->style)) && n < sizeof list; i++)
        if (*kind)
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", kind);
    return error_set(STATUS_USAGE, "plot %s does not support --%s (kinds that do: %s)", name,
                     o->option, list);
}

/* "OLD=NEW"; an OLD with an equals sign stands in quotes. */
static enum status read_label(const char *text, struct plot_label *out)
{
    bool quoted = *text == '"';
    const char *old = text + quoted, *end = strstr(old, quoted ? "\"=" : "=");
    if (!end || end == old || !end[quoted + 1])
        return error_set(STATUS_USAGE, "--label: got '%.60s', expected OLD=NEW or \"OLD\"=NEW",
                         text);
    *out =
        (struct plot_label){.old = old, .shown = end + quoted + 1, .length = (size_t)(end - old)};
    return STATUS_OK;
}

enum status style_read(const struct plot_wishes *w, const char *name, unsigned styles,
                       const char *(*obeys)(size_t i, unsigned style), struct plot_label *label,
                       struct plot_style *out)
{
    struct plot_style s = {.label = label};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const char *text = *(const char *const *)((const char *)w + options[i].wish);
        if (!text)
            continue;
        if (options[i].style & ~styles)
            return refuse(name, &options[i], obeys);
        if (options[i].read)
            PASS(options[i].read(text, &s));
    }
    for (; s.labels < w->labels.n; s.labels++)
        PASS(read_label(w->labels.item[s.labels], &label[s.labels]));
    *out = s;
    return STATUS_OK;
}

/* ---- names */

enum { COMPARED = 200 }; /* names of which each is compared with each */

static struct plot_label *style_find(const struct plot_style *style, const char *text)
{
    for (size_t i = 0; style && i < style->labels; i++)
        if (strlen(text) == style->label[i].length &&
            !memcmp(text, style->label[i].old, style->label[i].length)) {
            style->label[i].used = true;
            return &style->label[i];
        }
    return NULL;
}

/* Remember a name that a label could have been for. */
static void note_known(const struct plot_style *style, const char *text)
{
    enum { LISTED = 8 };
    char name[STYLE_NAME + 2];
    struct plot_known *k = style ? style->known : NULL;
    snprintf(name, sizeof name, "'%.80s'", text);
    if (!k || style->labels == 0 || k->n == LISTED || strstr(k->text, name))
        return;
    size_t n = strlen(k->text);
    if (n + strlen(name) + 2 < STYLE_KNOWN) {
        snprintf(k->text + n, STYLE_KNOWN - n, "%s%s", n > 0 ? ", " : "", name);
        k->n++;
    }
}

const char *style_shown(const struct plot_style *style, const char *text)
{
    const struct plot_label *l = style_find(style, text);
    note_known(style, text);
    return l ? l->shown : text;
}

const char *style_shown_either(const struct plot_style *style, const char *text, const char *brief)
{
    const char *shown = style_shown(style, text);
    struct plot_label *l = shown == text ? style_find(style, brief) : NULL;
    if (!l)
        return shown;
    char *whole = *l->whole ? l->another : l->whole;
    if (strncmp(l->whole, text, sizeof l->whole - 1) != 0)
        snprintf(whole, sizeof l->whole, "%s", text);
    return l->shown;
}

enum status style_check_labels(const struct plot_style *style)
{
    for (size_t i = 0; style && i < style->labels; i++) {
        const struct plot_label *l = &style->label[i];
        int length = (int)(l->length < 60 ? l->length : 60);
        if (*l->another)
            return error_set(STATUS_USAGE, "--label: '%.*s' is ambiguous: use '%s' or '%s'", length,
                             l->old, l->whole, l->another);
        if (!l->used)
            return error_set(STATUS_USAGE,
                             "--label: this figure has no line, category or column '%.*s'%s%s",
                             length, l->old, style->known && style->known->n > 0 ? "; known: " : "",
                             style->known ? style->known->text : "");
    }
    return STATUS_OK;
}

/* A part of a name, with the separator behind it: "rail:", "gpus=8,". Returns where the next one
 * begins. */
static const char *next_part(const char *at, const char *separators, size_t *length)
{
    *length = strcspn(at, separators);
    size_t n = *length + strspn(at + *length, separators);
    return at + n + strspn(at + n, " ");
}

static bool has_part(const char *name, const char *part, size_t length, const char *separators)
{
    size_t n;
    for (const char *at = name, *next; *at; at = next) {
        next = next_part(at, separators, &n);
        if (n == length && !memcmp(at, part, n))
            return true;
    }
    return false;
}

/* `name` without the parts that all n names have; these go to left_out. */
static void shorten_name(char (*all)[STYLE_NAME], size_t n, const char *name,
                         const char *separators, char shown[STYLE_NAME], char left_out[STYLE_NAME])
{
    char *const to[] = {shown, left_out};
    size_t used[] = {0, 0}, length;
    *shown = *left_out = '\0';
    for (const char *at = name, *next; *at; at = next) {
        size_t k = 0;
        next = next_part(at, separators, &length);
        while (k < n && has_part(all[k], at, length, separators))
            k++;
        size_t of = k == n;
        if (used[of] < STYLE_NAME)
            used[of] += (size_t)snprintf(to[of] + used[of], STYLE_NAME - used[of], "%s%.*s",
                                         !used[of]            ? ""
                                         : *separators == '/' ? "/"
                                                              : ", ",
                                         (int)length, at);
    }
}

/* Do the shown names tell apart what the raw ones do? */
static bool are_told_apart(size_t n, const char *const *raw, char (*shown)[STYLE_NAME])
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k <= i; k++)
            if (!*shown[i] || (strcmp(raw[i], raw[k]) != 0 && strcmp(shown[i], shown[k]) == 0))
                return false;
    return true;
}

/* Leave out what all have, unless names would be empty or alike then. */
static void drop_shared(size_t n, const char *const *raw, const char *separators,
                        char (*all)[STYLE_NAME], char (*shown)[STYLE_NAME], char shared[STYLE_NAME])
{
    for (size_t i = 0; i < n; i++)
        shorten_name(all, n, all[i], separators, shown[i], shared);
    if (*shared && are_told_apart(n, raw, shown))
        return;
    *shared = '\0';
    memcpy(shown, all, n * STYLE_NAME);
}

/* Of a file its name without ".json", of others all. */
static void plain_name(const char *raw, char shown[STYLE_NAME])
{
    size_t n = strlen(raw);
    if (n > 5 && !strcmp(raw + n - 5, ".json"))
        style_plan_name(raw, shown, STYLE_NAME);
    else
        text_shorten(raw, SIZE_MAX, shown, STYLE_NAME);
}

void style_plan_name(const char *path, char *text, size_t room)
{
    const char *slash = strrchr(path, '/'), *name = slash && slash[1] ? slash + 1 : path;
    size_t n = strlen(name);
    if (n > 5 && strcmp(name + n - 5, ".json") == 0)
        n -= 5;
    snprintf(text, room, "%.*s", (int)n, name);
    if (n >= room) /* cut between letters */
        text_shorten(name, SIZE_MAX, text, room);
}

enum status style_names(const struct plot_style *style, size_t n, const char *const *raw,
                        char (*shown)[STYLE_NAME], char shared[STYLE_NAME])
{
    char(*all)[STYLE_NAME];
    PASS(ARRAY_NEW(all, n + 1));
    *shared = '\0';
    for (size_t i = 0; i < n; i++)
        plain_name(raw[i], shown[i]);
    if (n <= COMPARED &&
        !are_told_apart(n, raw, shown)) { /* files of one name in several folders */
        for (size_t i = 0; i < n; i++)
            snprintf(all[i], STYLE_NAME, "%s", raw[i]);
        drop_shared(n, raw, "/", all, shown, shared);
    }
    memcpy(all, shown, n * STYLE_NAME);
    if (n <= COMPARED)
        drop_shared(n, raw, ",:;", all, shown, shared);
    for (size_t i = 0; i < n; i++) {
        const struct plot_label *l = style_find(style, raw[i]);
        l = l ? l : style_find(style, shown[i]);
        note_known(style, shown[i]);
        if (l)
            text_shorten(l->shown, SIZE_MAX, shown[i], STYLE_NAME);
    }
    free(all);
    return STATUS_OK;
}

/* ---- columns */

void style_words(const char *column, char *words, size_t room)
{
    static const char *const folders[] = {"platform.", "plan.", "model."};
    static const char *const capitals[] = {"nic", "gpu", "gpus", "cpu", "mfu"};
    size_t n = 0;
    for (size_t k = 0; k < sizeof folders / sizeof *folders; k++)
        if (text_begins(column, folders[k]) && column[strlen(folders[k])])
            column += strlen(folders[k]);
    while (*column && n + 1 < room) {
        size_t length = strcspn(column, "._- "), capital = 0;
        for (size_t k = 0; k < sizeof capitals / sizeof *capitals; k++)
            if (strlen(capitals[k]) == length && !memcmp(capitals[k], column, length))
                capital = column[length - 1] == 's' ? length - 1 : length;
        for (size_t i = 0; i < length && n + 1 < room; i++)
            words[n++] = (char)(i < capital ? toupper((unsigned char)column[i]) : column[i]);
        column += length + (column[length] != '\0');
        if (*column && n + 1 < room)
            words[n++] = ' ';
    }
    words[n] = '\0';
}
