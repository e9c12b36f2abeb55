/* Writes the gnuplot script and the table of a picture into temporary files, runs gnuplot, and
 * renames both results into place when all has gone well. */
#include "plots/figure.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/limit.h"
#include "core/base/text.h"
#include "core/data/compare.h"
#include "host/tool.h"

const char figure_compute[] = "#0072B2", figure_forward[] = "#56B4E9",
           figure_backward[] = "#D55E00", figure_weight[] = "#F0E442", figure_update[] = "#000000",
           figure_copy[] = "#CC79A7", figure_communication[] = "#009E73", figure_idle[] = "#E6E6E6",
           figure_measured[] = "#404040", figure_analytic[] = "#56B4E9",
           figure_simgrid[] = "#0072B2", figure_other[] = "#CC79A7";

/* ---- text */

void figure_put_string(FILE *script, const char *text)
{
    char letter[TEXT_LETTER];
    size_t bytes, columns;
    putc('\'', script);
    for (; (bytes = text_letter(text, letter, &columns)) > 0; text += bytes)
        fputs(*letter == '\'' ? "’" : letter, script); /* doubled it is misread at the start */
    putc('\'', script);
}

void figure_put_text(FILE *stream, const char *text)
{
    char letter[TEXT_LETTER];
    size_t bytes, columns;
    for (; (bytes = text_letter(text, letter, &columns)) > 0; text += bytes)
        fputs(*letter == '"' ? " " : letter, stream); /* it would quote a field of gnuplot's data */
}

void figure_put_field(FILE *stream, const char *text)
{
    text_put_guard(stream, text);
    figure_put_text(stream, text);
}

/* ---- the line below the axis, and notes below that */

enum { NOTE_LINES = 4, NOTE_CHARACTER = 6 };

const char *figure_wrap(const char *text, size_t columns, bool at_commas, char line[FIGURE_WRAP])
{
    char letter[TEXT_LETTER];
    size_t end = 0, comma = 0, space = 0, at = 0, bytes, wide;
    if (text_columns(text) <= columns) {
        text_shorten(text, columns, line, FIGURE_WRAP);
        return text + strlen(text);
    }
    for (; (bytes = text_letter(text + end, letter, &wide)) > 0; end += bytes, at += wide) {
        space = *letter == ' ' ? end : space;
        if ((at + wide > columns && end > 0) || end + bytes >= FIGURE_WRAP)
            break;
        comma = *letter == ',' ? end + bytes : comma;
    }
    end = at_commas && comma ? comma : space ? space : end;
    snprintf(line, FIGURE_WRAP, "%.*s", (int)end, text);
    return text + end + strspn(text + end, " ");
}

/* The next line of a note; the rest is cut from the last one. */
static const char *note_line(const struct figure_geometry *g, const char *note, bool last,
                             char line[FIGURE_WRAP])
{
    size_t columns = (size_t)(g->width - 12) / NOTE_CHARACTER;
    if (!last)
        return figure_wrap(note, columns, false, line);
    text_shorten(note, columns, line, FIGURE_WRAP);
    return note + strlen(note);
}

static const char *note_of(const struct figure_geometry *g)
{
    return g->note && !(g->style && g->style->no_note) ? g->note : "";
}

static int note_height(const struct figure_geometry *g)
{
    int lines = 0;
    char line[FIGURE_WRAP];
    for (const char *at = note_of(g); *at; lines++)
        at = note_line(g, at, lines + 1 == NOTE_LINES, line);
    return lines * FIGURE_LINE;
}

void figure_put_name(FILE *script, const char *text)
{
    char name[FIGURE_WRAP];
    text_shorten(text, SIZE_MAX, name, sizeof name);
    name[0] = (char)(name[0] >= 'a' && name[0] <= 'z' ? name[0] - 'a' + 'A' : name[0]);
    figure_put_string(script, name);
}

/* Rows of a legend above or below the axes. */
static bool key_is_below(const struct figure_geometry *g)
{
    return g->style && g->style->legend == LEGEND_BOTTOM;
}

void figure_put_xlabel(FILE *script, const struct figure_geometry *g, const char *text)
{
    double middle = (g->left + g->width - g->right) / 2.0;
    int y = 12 + note_height(g), lines = 0;
    char line[FIGURE_WRAP];
    y += key_is_below(g) ? g->key_room : 0;
    fprintf(script, "set label ");
    if (g->style && g->style->xlabel && *text)
        figure_put_string(script, g->style->xlabel);
    else
        figure_put_name(script, text);
    fprintf(script, " at screen %.5f,%.5f center noenhanced\n", middle / g->width,
            (double)y / g->height);
    y = 12 + note_height(g);
    for (const char *at = note_of(g); *at; lines++) {
        at = note_line(g, at, lines + 1 == NOTE_LINES, line);
        y -= FIGURE_LINE;
        fprintf(script, "set label ");
        figure_put_string(script, line);
        fprintf(script,
                " at screen 0.5,%.5f center noenhanced font ',%d' textcolor rgb '#606060'\n",
                (double)y / g->height, FIGURE_SMALL);
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

const char *figure_engine_colour(const char *engine)
{
    if (!engine_predicts(engine))
        return figure_measured;
    return strcmp(engine, "analytic") == 0  ? figure_analytic
           : strcmp(engine, "simgrid") == 0 ? figure_simgrid
                                            : figure_other;
}

/* ---- legend and colours */

enum {
    KEY_SWATCH = 14,
    KEY_LINE = 26,
    KEY_GAP = 5,
    KEY_APART = 16,
    KEY_TOP = 14,
    KEY_ROW = FIGURE_LINE + 2
};

static bool key_is_beside(const struct figure_geometry *g)
{
    return g->style && g->style->legend == LEGEND_RIGHT;
}

static int key_left(const struct figure_geometry *g)
{
    return key_is_beside(g) ? g->width - g->key_room : g->key_left ? g->key_left : g->left;
}

/* Columns of a name's lines: at most a row; beside the axes, a part of it. */
static size_t key_columns(const struct figure_geometry *g)
{
    int left = key_is_beside(g) ? g->width * 3 / 5 : key_left(g);
    int room = g->width - 4 - left - KEY_LINE - KEY_GAP;
    return room > FIGURE_CHARACTER ? (size_t)room / FIGURE_CHARACTER : 1;
}

/* Width of an entry in pixels, and how many lines its name takes. */
static int key_width(const struct figure_geometry *g, const struct figure_key *key, int *lines)
{
    char line[FIGURE_WRAP];
    size_t most = 0;
    *lines = 0;
    for (const char *at = key->name; *at; ++*lines) {
        at = figure_wrap(at, key_columns(g), true, line);
        most = text_columns(line) > most ? text_columns(line) : most;
    }
    return (key->point ? KEY_LINE : KEY_SWATCH) + KEY_GAP + (int)most * FIGURE_CHARACTER +
           KEY_APART;
}

/* Where the next entry of a legend goes: pixels from the left, and rows, of which a line of a name
 * takes one. */
struct key_cursor {
    int x, row, next; /* the first free row below */
};

/* The left edge of an entry, in row c->row; moves on. */
static int key_place(const struct figure_geometry *g, const struct figure_key *key,
                     struct key_cursor *c)
{
    int lines, width = key_width(g, key, &lines), left = key_left(g);
    if (c->x > left && (key_is_beside(g) || c->x + width - KEY_APART > g->width - 4)) {
        c->x = left;
        c->row = c->next;
    }
    c->next = c->row + lines > c->next ? c->row + lines : c->next;
    c->x += width;
    return c->x - width;
}

int figure_title_height(const struct figure_geometry *g)
{
    return g->style && g->style->title ? FIGURE_LINE + 8 : 0;
}

int figure_width(const struct plot_style *style)
{
    return style && style->width ? style->width : FIGURE_COLUMN;
}

void figure_set_margins(struct figure_geometry *g, int axis, const struct figure_key *key, size_t n)
{
    int lines;
    g->right -= key_is_beside(g) ? g->key_room : 0;
    g->key_room = g->key_down = 0;
    struct key_cursor c = {.x = key_left(g)};
    g->top = figure_title_height(g) + 8;
    g->bottom = axis + note_height(g);
    if (n == 0 || (g->style && g->style->legend == LEGEND_NONE))
        return;
    if (key_is_beside(g)) {
        for (size_t i = 0; i < n; i++) {
            int width = key_width(g, &key[i], &lines);
            g->key_room = width > g->key_room ? width : g->key_room;
            g->key_down += lines * KEY_ROW;
        }
        g->key_down += g->top + note_height(g);
        g->right += g->key_room;
        return;
    }
    for (size_t i = 0; i < n; i++)
        (void)key_place(g, &key[i], &c);
    g->key_room = KEY_TOP - 6 + c.next * KEY_ROW;
    if (key_is_below(g))
        g->bottom += g->key_room;
    else
        g->top += g->key_room;
}

/* Line, point or box of entry `key` from pixel `at` to `end` of a row whose middle is at y. */
static void put_sample(FILE *script, const struct figure_geometry *g, const struct figure_key *key,
                       double at, double end, double y)
{
    double w = g->width, h = g->height;
    if (key->dash)
        fprintf(script,
                "set arrow from screen %.5f,%.5f to screen %.5f,%.5f nohead linecolor rgb "
                "'%s' linewidth 1.5 dashtype %d\n",
                at / w, 1 - y / h, end / w, 1 - y / h, key->colour, key->dash);
    if (key->point)
        fprintf(script,
                "set label '' at screen %.5f,%.5f point pointtype %d pointsize 0.9 linecolor "
                "rgb '%s'\n",
                (at + end) / 2 / w, 1 - y / h, key->point, key->colour);
    else
        fprintf(script,
                "set object rectangle from screen %.5f,%.5f to screen %.5f,%.5f "
                "fillcolor rgb '%s' fillstyle solid noborder\n",
                at / w, 1 - (y + KEY_SWATCH / 2.0) / h, end / w, 1 - (y - KEY_SWATCH / 2.0) / h,
                key->colour);
}

void figure_put_key(FILE *script, const struct figure_geometry *g, const struct figure_key *key,
                    size_t n)
{
    struct key_cursor c = {.x = key_left(g)};
    char line[FIGURE_WRAP];
    double top = figure_title_height(g) + KEY_TOP;
    if (g->style && g->style->legend == LEGEND_NONE)
        return;
    if (key_is_below(g))
        top = g->height - note_height(g) - g->key_room + 10;
    else if (key_is_beside(g))
        top = g->top + KEY_SWATCH / 2.0;
    for (size_t i = 0; i < n; i++) {
        int at = key_place(g, &key[i], &c);
        double y = top + c.row * KEY_ROW, end = at + (key[i].point ? KEY_LINE : KEY_SWATCH);
        put_sample(script, g, &key[i], at, end, y);
        for (const char *name = key[i].name; *name; y += KEY_ROW) {
            name = figure_wrap(name, key_columns(g), true, line);
            fputs("set label ", script);
            figure_put_string(script, line);
            fprintf(script, " at screen %.5f,%.5f left noenhanced\n", (end + KEY_GAP) / g->width,
                    1 - y / g->height);
        }
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
    return series[(i + i / FIGURE_SERIES) % FIGURE_SERIES].point;
}

int figure_series_dash(size_t i)
{
    return 1 + (int)(i / FIGURE_SERIES);
}

const char *figure_ink(const char *colour)
{
    unsigned long rgb = strtoul(colour + 1, NULL, 16);
    double luminance = 0.299 * (double)(rgb >> 16 & 255) + 0.587 * (double)(rgb >> 8 & 255) +
                       0.114 * (double)(rgb & 255);
    return luminance > 135 ? "#000000" : "#FFFFFF";
}

/* ---- files */

/* The gnuplot terminal for a file name, "" of the table alone; NULL when there is none. */
static const char *terminal_of(const char *output)
{
    static const struct {
        const char *extension, *terminal;
    } terminals[] = {{".svg", "svg"}, {".png", "pngcairo"}, {".pdf", "pdfcairo"}, {".tsv", ""}};
    size_t n = strlen(output);
    for (size_t i = 0; i < sizeof terminals / sizeof *terminals; i++)
        if (n > 4 && strcmp(output + n - 4, terminals[i].extension) == 0)
            return terminals[i].terminal;
    return NULL;
}

/* What one pixel of the layout is, in 1/96 inch. */
static double figure_scale(const struct plot_style *style)
{
    return style && style->scale > 0 ? style->scale : 1;
}

/* An SVG is drawn in pixels of the layout and then given its size (take_drawing()). Cairo draws a
 * font of N at N * fontscale * 4/3 of its units: pixels, and of a PDF points. */
static void put_terminal(FILE *script, const char *terminal, const struct figure_geometry *g)
{
    const struct plot_style none = {0}, *style = g->style ? g->style : &none;
    double scale = figure_scale(style), stroke = style->stroke > 0 ? style->stroke : 1;
    const char *font = style->font ? style->font : "Sans";
    size_t n = strcspn(font, ":");
    if (strcmp(terminal, "svg") == 0) {
        fprintf(script,
                "set terminal svg size %d,%d font '%.*s,%d' linewidth %.3g background "
                "'#FFFFFF'\n",
                g->width, g->height, style->font ? (int)n : 26,
                style->font ? font : "Helvetica,Arial,sans-serif", FIGURE_FONT, stroke);
        return;
    }
    bool png = strcmp(terminal, "pngcairo") == 0;
    double pixel = scale * (png ? style->density > 0 ? style->density : 2 : 0.75);
    double in = png ? pixel : scale / FIGURE_DPI;
    fprintf(script, png ? "set terminal %s size %.0f,%.0f" : "set terminal %s size %.3fin,%.3fin",
            terminal, g->width * in, g->height * in);
    fprintf(script, " font '%.*s,%d' fontscale %.4f linewidth %.3f pointscale %.3f\n", (int)n, font,
            FIGURE_FONT, 0.75 * pixel, (png ? pixel : scale) * stroke,
            (png ? pixel : scale) * stroke);
}

static void put_preamble(FILE *script, const char *terminal, const struct figure_geometry *g)
{
    put_terminal(script, terminal, g);
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
    if (figure_title_height(g) > 0) {
        char title[FIGURE_WRAP];
        size_t columns = (size_t)(g->width - 12) / (FIGURE_CHARACTER + 1);
        fputs("set label ", script);
        figure_put_string(script, text_shorten(g->style->title, columns, title, sizeof title));
        fprintf(script, " at screen 0.5,%.5f center noenhanced font ',%d'\n",
                1 - (FIGURE_LINE - 2.0) / g->height, FIGURE_FONT + 1);
    }
}

/* How tables of pictures begin, and nothing else that this program writes. */
static const char table_mark[] = "# plotted by ";

enum status figure_table(const char *output, char **table)
{
    if (!terminal_of(output))
        return error_set(STATUS_USAGE, "%s: output file must end in .svg, .png, .pdf or .tsv",
                         output);
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
    if (*terminal)
        TRY(file_create(output, &f.picture));
    f.script = tmpfile();
    f.errors = tmpfile();
    f.drawing = tmpfile();
    if (!f.script || !f.errors || !f.drawing)
        FAIL(STATUS_IO, "cannot create a temporary file for gnuplot: %s", strerror(errno));
    f.table = f.data.stream;
    f.by = by;
    f.style = g->style;
    f.width = g->width;
    f.height = g->height;
    f.svg = strcmp(terminal, "svg") == 0;
    fputs(table_mark, f.table);
    figure_put_text(f.table, by->version);
    fputs(": ", f.table);
    figure_put_text(f.table, by->command);
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

/* Where no font has a letter, pictures of pixels get a stand-in of any size, at worst over the
 * whole page. The letters that common fonts lack, the wide ones and those beyond the first plane,
 * become □; an SVG leaves them to its reader. */
static enum status replace_letters(struct figure *f)
{
    FILE *plain = tmpfile();
    char line[8192], letter[TEXT_LETTER];
    size_t bytes, columns;
    if (!plain)
        return error_set(STATUS_IO, "cannot create a temporary file for gnuplot: %s",
                         strerror(errno));
    rewind(f->script);
    while (fgets(line, sizeof line, f->script))
        for (const char *at = line; (bytes = text_letter(at, letter, &columns)) > 0; at += bytes)
            if (columns == 2 || strlen(letter) == 4)
                fputs("□", plain);
            else
                fwrite(at, 1, bytes, plain); /* the end of the line too */
    fclose(f->script);
    f->script = plain;
    return STATUS_OK;
}

/* With the script as input, the drawing as output; settings of the user are ignored (-d). */
static enum status run_gnuplot(const struct figure *f)
{
    static const char *const words[] = {"gnuplot", "-d", "-", NULL};
    const struct tool gnuplot = {
        words,          NULL, fileno(f->script), fileno(f->drawing), fileno(f->errors),
        limit_wait(300) /* a picture of a million bars takes a minute */};
    int code;
    char complaint[256];

    if (fflush(f->script) != 0 || fseek(f->script, 0, SEEK_SET) != 0)
        return error_set(STATUS_IO, "cannot write the script for gnuplot: %s", strerror(errno));
    enum status st = tool_run(&gnuplot, &code);
    if (st == STATUS_UNSUPPORTED)
        return error_set(STATUS_EXTERNAL, "gnuplot is not installed. Try apt install gnuplot-nox");
    PASS(st);
    if (code >= 127) /* not executed, or killed */
        return error_set(STATUS_EXTERNAL,
                         "gnuplot could not be started or was killed (exit status %d)", code);
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

/* What gnuplot drew into the picture, which may be a pipe. An SVG whose pixels are not those of the
 * layout gets another width and height: its viewBox stays, and with it everything inside. */
static enum status take_drawing(const struct figure *f)
{
    char part[BUFSIZ], size[64], *at = NULL;
    double scale = figure_scale(f->style);
    size_t n;
    rewind(f->drawing);
    snprintf(size, sizeof size, "width=\"%d\" height=\"%d\"", f->width, f->height);
    while ((n = fread(part, 1, sizeof part - 1, f->drawing)) > 0) {
        part[n] = '\0';
        if (f->svg && fabs(scale - 1) > 1e-9 && !at && (at = strstr(part, size))) {
            fwrite(part, 1, (size_t)(at - part), f->picture.stream);
            fprintf(f->picture.stream, "width=\"%.0f\" height=\"%.0f\"", f->width * scale,
                    f->height * scale);
            at += strlen(size);
            fwrite(at, 1, n - (size_t)(at - part), f->picture.stream);
        } else {
            fwrite(part, 1, n, f->picture.stream); /* file_commit() notices what failed */
        }
    }
    return ferror(f->drawing) ? error_set(STATUS_IO, "cannot read the figure that gnuplot drew: %s",
                                          strerror(errno))
                              : STATUS_OK;
}

enum status figure_finish(struct figure *f)
{
    enum status st = STATUS_OK;
    TRY(style_check_labels(f->style));
    if (!f->picture.stream) {
        TRY(file_commit(&f->data));
        goto out;
    }
    if (!f->svg)
        TRY(replace_letters(f));
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
