/* Writes the gnuplot script and the table of a picture into temporary files, runs gnuplot, and
 * renames both results into place when all has gone well. */
#include "plots/figure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/compare.h"
#include "core/text.h"
#include "core/tool.h"

static const double gnuplot_s = 300; /* a picture of a million bars takes a minute */

const char figure_compute[] = "#0072B2", figure_forward[] = "#56B4E9",
           figure_backward[] = "#D55E00", figure_weight[] = "#F0E442", figure_update[] = "#000000",
           figure_copy[] = "#CC79A7", figure_communication[] = "#009E73", figure_idle[] = "#E6E6E6",
           figure_measured[] = "#404040", figure_analytic[] = "#56B4E9",
           figure_simgrid[] = "#0072B2", figure_other[] = "#CC79A7";

/* ---- text */

void figure_put_string(FILE *script, const char *text)
{
    putc('\'', script);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '\'') /* doubled, as documented, it is misread at the start of a string */
            fputs("’", script);
        else
            putc(c < 0x20 || c == 0x7f ? ' ' : c, script);
    }
    putc('\'', script);
}

void figure_put_xlabel(FILE *script, const struct figure_geometry *g, const char *text)
{
    double middle = (g->left + g->width - g->right) / 2.0;
    fprintf(script, "set label ");
    figure_put_string(script, text);
    bool noted = g->note && *g->note;
    fprintf(script, " at screen %.5f,%.5f center noenhanced\n", middle / g->width,
            (12.0 + (noted ? FIGURE_LINE : 0)) / g->height);
    if (!noted)
        return;
    char note[FIGURE_COLUMN / FIGURE_CHARACTER];
    fprintf(script, "set label ");
    snprintf(note, sizeof note, "%s", g->note);
    figure_put_string(script, note);
    fprintf(script, " at screen 0.5,%.5f center noenhanced textcolor rgb '#606060'\n",
            12.0 / g->height);
}

void figure_put_field(FILE *stream, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        /* a quotation mark would start a quoted field in gnuplot's data */
        putc(c < 0x20 || c == 0x7f || c == '"' ? ' ' : c, stream);
    }
}

struct figure_unit figure_time_unit(double longest_s)
{
    static const struct figure_unit units[] = {{"s", 1}, {"ms", 1e3}, {"µs", 1e6}};
    size_t i = 0;
    while (i + 1 < sizeof units / sizeof *units && longest_s * units[i].per_s < 1)
        i++;
    return units[i];
}

void figure_plan_name(const char *path, char *text, size_t room)
{
    const char *slash = strrchr(path, '/'), *name = slash && slash[1] ? slash + 1 : path;
    size_t n = strlen(name);
    if (n > 5 && strcmp(name + n - 5, ".json") == 0)
        n -= 5;
    snprintf(text, room, "%.*s", (int)n, name);
}

const char *figure_engine_colour(const char *engine)
{
    if (!engine_predicts(engine))
        return figure_measured;
    return strcmp(engine, "analytic") == 0  ? figure_analytic
           : strcmp(engine, "simgrid") == 0 ? figure_simgrid
                                            : figure_other;
}

size_t figure_characters(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* ---- legend and colours */

enum { KEY_SWATCH = 14, KEY_LINE = 26, KEY_GAP = 5, KEY_APART = 16, KEY_TOP = 14 };

static int key_width(const struct figure_key *key)
{
    return (key->point ? KEY_LINE : KEY_SWATCH) + KEY_GAP +
           (int)figure_characters(key->name) * FIGURE_CHARACTER + KEY_APART;
}

/* Where entry i goes when the one before ended at *x in row *row; moves both on. */
static int key_place(const struct figure_geometry *g, const struct figure_key *key, int *x,
                     int *row)
{
    int width = key_width(key), at;
    if (*x > g->left && *x + width - KEY_APART > g->width - 4) {
        *x = g->left;
        ++*row;
    }
    at = *x;
    *x += width;
    return at;
}

int figure_key_height(const struct figure_geometry *g, const struct figure_key *key, size_t n)
{
    int x = g->left, row = 0;
    for (size_t i = 0; i < n; i++)
        (void)key_place(g, &key[i], &x, &row);
    return n == 0 ? 8 : KEY_TOP + (row + 1) * (FIGURE_LINE + 2);
}

void figure_put_key(FILE *script, const struct figure_geometry *g, const struct figure_key *key,
                    size_t n)
{
    int x = g->left, row = 0;
    for (size_t i = 0; i < n; i++) {
        int at = key_place(g, &key[i], &x, &row);
        double y = KEY_TOP + row * (FIGURE_LINE + 2.0), w = g->width, h = g->height;
        double end = at + (key[i].point ? KEY_LINE : KEY_SWATCH);
        if (key[i].point)
            fprintf(script,
                    "set arrow from screen %.5f,%.5f to screen %.5f,%.5f nohead linecolor rgb "
                    "'%s' linewidth 1.5\n"
                    "set label '' at screen %.5f,%.5f point pointtype %d pointsize 0.9 linecolor "
                    "rgb '%s'\n",
                    at / w, 1 - y / h, end / w, 1 - y / h, key[i].colour, (at + end) / 2 / w,
                    1 - y / h, key[i].point, key[i].colour);
        else
            fprintf(script,
                    "set object rectangle from screen %.5f,%.5f to screen %.5f,%.5f "
                    "fillcolor rgb '%s' fillstyle solid noborder\n",
                    at / w, 1 - (y + KEY_SWATCH / 2.0) / h, end / w, 1 - (y - KEY_SWATCH / 2.0) / h,
                    key[i].colour);
        fputs("set label ", script);
        figure_put_string(script, key[i].name);
        fprintf(script, " at screen %.5f,%.5f left noenhanced\n", (end + KEY_GAP) / w, 1 - y / h);
    }
}

/* Neighbours differ in lightness; every line has a point of its own shape as well. */
static const struct {
    const char *colour;
    int point;
} series[FIGURE_SERIES] = {
    {"#0072B2", 7},  {"#E69F00", 5},  {"#000000", 9}, {"#56B4E9", 13},
    {"#D55E00", 11}, {"#CC79A7", 15}, {"#009E73", 4},
};

const char *figure_series_colour(size_t i)
{
    return series[i % FIGURE_SERIES].colour;
}

int figure_series_point(size_t i)
{
    return series[i % FIGURE_SERIES].point;
}

const char *figure_ink(const char *colour)
{
    unsigned long rgb = strtoul(colour + 1, NULL, 16);
    double luminance = 0.299 * (double)(rgb >> 16 & 255) + 0.587 * (double)(rgb >> 8 & 255) +
                       0.114 * (double)(rgb & 255);
    return luminance > 135 ? "#000000" : "#FFFFFF";
}

/* ---- files */

/* The gnuplot terminal for a file name; NULL when there is none. */
static const char *terminal_of(const char *output)
{
    static const struct {
        const char *extension, *terminal;
    } terminals[] = {{".svg", "svg"}, {".png", "pngcairo"}, {".pdf", "pdfcairo"}};
    size_t n = strlen(output);
    for (size_t i = 0; i < sizeof terminals / sizeof *terminals; i++)
        if (n > 4 && strcmp(output + n - 4, terminals[i].extension) == 0)
            return terminals[i].terminal;
    return NULL;
}

static void put_preamble(FILE *script, const char *terminal, const struct figure_geometry *g)
{
    const char *font = "Helvetica,Arial,sans-serif";
    if (strcmp(terminal, "svg") == 0)
        fprintf(script, "set terminal svg size %d,%d font '%s,%d' background '#FFFFFF'\n", g->width,
                g->height, font, FIGURE_FONT);
    else if (strcmp(terminal, "pngcairo") == 0)
        fprintf(script,
                "set terminal pngcairo size %d,%d font 'Sans,%d' fontscale 1.5 linewidth 2 "
                "pointscale 2\n",
                2 * g->width, 2 * g->height, FIGURE_FONT);
    else
        fprintf(script, "set terminal pdfcairo size %.3fin,%.3fin font 'Sans,%d' fontscale 0.75\n",
                g->width / 96.0, g->height / 96.0, FIGURE_FONT);
    fprintf(script,
            "set encoding utf8\n"
            "set lmargin at screen %.5f\nset rmargin at screen %.5f\n"
            "set tmargin at screen %.5f\nset bmargin at screen %.5f\n"
            "set datafile separator '\\t'\n"
            "set border 3 linecolor rgb '#404040'\n"
            "set tics nomirror out\n"
            "set style fill solid 1.0 noborder\n",
            (double)g->left / g->width, 1 - (double)g->right / g->width,
            1 - (double)g->top / g->height, (double)g->bottom / g->height);
}

/* How tables of pictures begin, and nothing else that this program writes. */
static const char table_mark[] = "# plotted by ";

enum status figure_table(const char *output, char **table)
{
    if (!terminal_of(output))
        return error_set(STATUS_USAGE, "%s: a picture ends in .svg, .png or .pdf", output);
    PASS(text_copy(output, table));
    strcpy(*table + strlen(output) - 4, ".tsv");
    return STATUS_OK;
}

enum status figure_open(const char *output, const struct figure_geometry *g,
                        const struct provenance *by, struct figure *out)
{
    enum status st = STATUS_OK;
    struct figure f = {0};
    char *table = NULL;
    const char *terminal;

    TRY(figure_table(output, &table));
    terminal = terminal_of(output);
    TRY(file_create_beside(table, table_mark, &f.data));
    TRY(file_create(output, &f.picture));
    f.script = tmpfile();
    f.errors = tmpfile();
    f.drawing = tmpfile();
    if (!f.script || !f.errors || !f.drawing)
        FAIL(STATUS_IO, "temporary file for gnuplot: %s", strerror(errno));
    f.table = f.data.stream;
    f.by = by;
    f.svg = strcmp(terminal, "svg") == 0;
    fputs(table_mark, f.table);
    figure_put_field(f.table, by->version);
    fputs(": ", f.table);
    figure_put_field(f.table, by->command);
    putc('\n', f.table);
    put_preamble(f.script, terminal, g);
    MOVE(out, f);
out:
    figure_discard(&f);
    free(table);
    return st;
}

void figure_discard(struct figure *f)
{
    if (f->script)
        fclose(f->script);
    if (f->errors)
        fclose(f->errors);
    if (f->drawing)
        fclose(f->drawing);
    file_discard(&f->picture);
    file_discard(&f->data);
    *f = (struct figure){0};
}

/* ---- gnuplot */

/* The line in which gnuplot says what is wrong: the last that is not blank. */
static void read_complaint(FILE *errors, char *text, int room)
{
    char line[256];
    snprintf(text, (size_t)room, "no message");
    rewind(errors);
    while (fgets(line, sizeof line, errors)) {
        size_t n = strcspn(line, "\r\n");
        line[n] = '\0';
        if (line[strspn(line, " \t^")] != '\0')
            snprintf(text, (size_t)room, "%s", line);
    }
}

/* With the script as input, the drawing as output; settings of the user are ignored (-d). */
static enum status run_gnuplot(const struct figure *f)
{
    static const char *const words[] = {"gnuplot", "-d", "-", NULL};
    const struct tool gnuplot = {
        words, NULL, fileno(f->script), fileno(f->drawing), fileno(f->errors), gnuplot_s};
    int code;
    char complaint[256];

    if (fflush(f->script) != 0 || fseek(f->script, 0, SEEK_SET) != 0)
        return error_set(STATUS_IO, "script for gnuplot: %s", strerror(errno));
    enum status st = tool_run(&gnuplot, &code);
    if (st == STATUS_UNSUPPORTED)
        return error_set(STATUS_EXTERNAL,
                         "gnuplot is not installed; on Debian: apt install gnuplot-nox");
    PASS(st);
    if (code >= 127) /* not executed, or killed */
        return error_set(STATUS_EXTERNAL, "gnuplot did not run to its end (status %d)", code);
    if (code != 0) {
        read_complaint(f->errors, complaint, sizeof complaint);
        return error_set(STATUS_EXTERNAL, "gnuplot: %s", complaint);
    }
    if (lseek(fileno(f->drawing), 0, SEEK_END) <= 0) {
        read_complaint(f->errors, complaint, sizeof complaint);
        return error_set(STATUS_EXTERNAL, "gnuplot drew nothing: %s", complaint);
    }
    return STATUS_OK;
}

/* Text inside an XML processing instruction: "?>" would end it. */
static void put_instruction(FILE *stream, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        putc(c < 0x20 || c == 0x7f || c == '?' ? ' ' : c, stream);
    }
}

/* What gnuplot drew into the picture, which may be a pipe. */
static enum status take_drawing(const struct figure *f)
{
    char part[BUFSIZ];
    size_t n;
    rewind(f->drawing);
    while ((n = fread(part, 1, sizeof part, f->drawing)) > 0)
        fwrite(part, 1, n, f->picture.stream); /* file_commit() notices what failed */
    return ferror(f->drawing) ? error_set(STATUS_IO, "drawing of gnuplot: %s", strerror(errno))
                              : STATUS_OK;
}

enum status figure_finish(struct figure *f)
{
    enum status st = STATUS_OK;
    TRY(run_gnuplot(f));
    TRY(take_drawing(f));
    if (f->svg) { /* a processing instruction: a comment must not hold two hyphens */
        fputs("<?foreline ", f->picture.stream);
        put_instruction(f->picture.stream, f->by->version);
        fputs(": ", f->picture.stream);
        put_instruction(f->picture.stream, f->by->command);
        fputs("?>\n", f->picture.stream);
    }
    TRY(file_commit(&f->data));
    TRY(file_commit(&f->picture));
out:
    figure_discard(f);
    return st;
}
