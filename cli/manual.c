/* Help texts and man pages. */
#include "cli/manual.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

enum { TERM_COLUMN = 26, LINE_LIMIT = 92 };

/* The list of what the command takes, from its table. */
static void put_rows(const struct command *c, FILE *out)
{
    struct command_row row;
    for (size_t i = 0; c->row && c->row(i, &row); i++) {
        fprintf(out, "%-*s", TERM_COLUMN, row.term);
        text_put_wrapped(out, row.summary, TERM_COLUMN, LINE_LIMIT);
    }
}

static taker_set own_takers(const struct command *c)
{
    taker_set takers = settings_takers(c->name);
    for (size_t i = 0; i < c->topics; i++)
        takers &= ~c->topic[i].takers;
    return takers;
}

static void help_of_topic(const struct command_table *p, const struct command *c,
                          const struct command_topic *t, FILE *out)
{
    fprintf(out, "usage: %s %s %s\n\n%s\n\n%s\n", p->name, c->name, t->synopsis, t->summary,
            t->details);
    settings_print(t->takers, out);
}

static void help_in_full(const struct command *c, FILE *out)
{
    fputc('\n', out);
    put_rows(c, out);
    fprintf(out, "%s%s\n", c->row ? "\n" : "", c->details);
    settings_print(own_takers(c), out);
    fprintf(out, "\nexamples:\n%s", c->examples);
}

/* What nine of ten people need, on one screen. */
static void help_at_first(const struct command *c, FILE *out)
{
    fprintf(out, "\nexamples:\n%s", c->examples);
    fputs(c->row ? "\n" : "", out);
    put_rows(c, out);
    if (!c->often) {
        settings_print(own_takers(c), out);
        return;
    }
    fputs("\noptions:\n", out);
    settings_print_some(own_takers(c), c->often, out);
}

/* Where the rest is. */
static void put_pointers(const struct command_table *p, const struct command *c, const char *word,
                         FILE *out)
{
    char name[128];
    if (strcmp(word, "all") != 0 || c->topics > 0)
        fputs("\nmore:\n", out);
    snprintf(name, sizeof name, "%s %s --help all", p->name, c->name);
    if (strcmp(word, "all") != 0)
        fprintf(out, "  %-30s how it works, and all options\n", name);
    for (size_t i = 0; i < c->topics; i++) {
        snprintf(name, sizeof name, "%s %s --help %s", p->name, c->name, c->topic[i].word);
        fprintf(out, "  %-30s %s\n", name, c->topic[i].summary);
    }
}

void manual_help(const struct command_table *p, const struct command *c, const char *word,
                 FILE *out)
{
    for (size_t i = 0; i < c->topics; i++)
        if (!strcmp(c->topic[i].word, word)) {
            help_of_topic(p, c, &c->topic[i], out);
            return;
        }
    fprintf(out, "usage: %s %s [options]%s%s\n\n%s\n", p->name, c->name, *c->synopsis ? " " : "",
            c->synopsis, c->summary);
    if (!strcmp(word, "all"))
        help_in_full(c, out);
    else
        help_at_first(c, out);
    put_pointers(p, c, word, out);
}

/* Text for troff: hyphens, backslashes, and a dot or quote at the start of a line. */
static void put_troff(const char *text, FILE *out)
{
    bool start = true;
    for (; *text; text++) {
        if (start && (*text == '.' || *text == '\''))
            fputs("\\&", out);
        if (*text == '-')
            fputs("\\-", out);
        else if (*text == '\\')
            fputs("\\e", out);
        else
            fputc(*text, out);
        start = *text == '\n';
    }
}

/* The list, the details, and those of topics. */
static void put_description(const struct command *c, FILE *out)
{
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    if (!to)
        return;
    put_rows(c, to);
    fprintf(to, "%s%s\n", c->row ? "\n" : "", c->details);
    for (size_t i = 0; i < c->topics; i++)
        fprintf(to, "\n%s\n", c->topic[i].details);
    fclose(to);
    put_troff(text ? text : c->summary, out);
    free(text);
}

/* "foreline lab scoreboard" has the page foreline-lab-scoreboard. */
static void page_head(const struct command_table *p, const char *name, const char *summary,
                      FILE *out)
{
    char page[128];
    snprintf(page, sizeof page, "%s%s%s", p->name, name ? "-" : "", name ? name : "");
    for (char *c = page; *c; c++)
        *c = *c == ' ' ? '-' : *c;
    fputs(".TH ", out);
    for (const char *c = page; *c; c++)
        fputc(toupper((unsigned char)*c), out);
    fprintf(out, " 1 \"\" \"%s\" \"User Commands\"\n.SH NAME\n", foreline_version);
    put_troff(page, out);
    fputs(" \\- ", out);
    put_troff(summary, out);
    fprintf(out, "\n.SH SYNOPSIS\n.B %s\n", p->name);
}

static void manual_put_options(const char *command, FILE *out)
{
    char text[1024];
    taker_set takers = settings_takers(command);
    if (takers)
        fputs(".SH OPTIONS\n", out);
    for (const struct setting *s = settings_table; s < settings_table + settings_table_n; s++) {
        if (!(s->takers & takers) || s->hidden)
            continue;
        fputs(".TP\n\\fB\\-\\-", out);
        put_troff(s->name, out);
        fputs("\\fR", out);
        if (s->unit) {
            fputs(" \\fI", out);
            put_troff(s->unit, out);
            fputs("\\fR", out);
        }
        fputc('\n', out);
        setting_describe(s, text, sizeof text);
        put_troff(text, out);
        fputc('\n', out);
    }
}

static void overview(const struct command_table *p, FILE *out)
{
    page_head(p, NULL, p->summary, out);
    fputs("<command> [options] [operands]\n.SH COMMANDS\n", out);
    for (int i = 0; i < p->commands; i++) {
        fprintf(out, ".TP\n\\fB%s\\fR\n", p->command[i]->name);
        put_troff(p->command[i]->summary, out);
        fputc('\n', out);
    }
    fputs(".SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage.\n", out);
}

int manual_page(const struct command_table *p, const char *name, FILE *out)
{
    if (!name) {
        overview(p, out);
        return 0;
    }
    for (int i = 0; i < p->commands; i++) {
        const struct command *c = p->command[i];
        if (strcmp(c->name, name) != 0)
            continue;
        page_head(p, c->name, c->summary, out);
        fprintf(out, "%s [options] ", c->name);
        put_troff(c->synopsis, out);
        fputs("\n.SH DESCRIPTION\n.nf\n", out);
        put_description(c, out);
        fputs(".fi\n", out);
        manual_put_options(c->name, out);
        fputs(".SH EXAMPLES\n.nf\n", out);
        put_troff(c->examples, out);
        fputs(".fi\n", out);
        return 0;
    }
    return 2;
}
