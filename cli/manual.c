/* Help texts and man pages. */
#include "cli/manual.h"

#include <stdbool.h>
#include <string.h>

void manual_help(const struct command *c, FILE *out)
{
    fprintf(out, "usage: foreline %s [options] %s\n\n%s\n", c->name, c->synopsis, c->summary);
    if (c->details)
        fprintf(out, "\n%s\n", c->details);
    fputs("\noptions:\n", out);
    if (c->options)
        option_print(c->options, out);
    else
        settings_print(settings_takers(c->name), out);
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

static void page_head(const char *name, const char *summary, FILE *out)
{
    fprintf(out, ".TH FORELINE%s%s 1 \"\" \"%s\" \"User Commands\"\n.SH NAME\nforeline%s%s \\- ",
            name ? "-" : "", name ? name : "", foreline_version, name ? "\\-" : "",
            name ? name : "");
    put_troff(summary, out);
    fputs("\n.SH SYNOPSIS\n.B foreline\n", out);
}

static void put_option(const char *name, const char *argument, const char *help, FILE *out)
{
    fputs(".TP\n\\fB\\-\\-", out);
    put_troff(name, out);
    fputs("\\fR", out);
    if (argument) {
        fputs(" \\fI", out);
        put_troff(argument, out);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    put_troff(help, out);
    fputc('\n', out);
}

static void put_options(const struct command *c, FILE *out)
{
    char text[1024];
    uint64_t takers = settings_takers(c->name);
    fputs(".SH OPTIONS\n", out);
    for (const struct option_spec *o = c->options; o && o->type != OPTION_END; o++)
        put_option(o->name, o->argument, o->help, out);
    for (size_t i = 0; !c->options && i < settings_table_n; i++) {
        setting_describe(&settings_table[i], text, sizeof text);
        if (settings_table[i].takers & takers)
            put_option(settings_table[i].name, settings_table[i].unit, text, out);
    }
}

static void overview(FILE *out)
{
    page_head(NULL, "cut a model over a cluster, predict, run, compare", out);
    fputs("<command> [options] [operands]\n.SH COMMANDS\n", out);
    for (int i = 0; i < commands_n; i++) {
        fprintf(out, ".TP\n\\fB%s\\fR\n", commands[i]->name);
        put_troff(commands[i]->summary, out);
        fputc('\n', out);
    }
    fputs(".SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage.\n", out);
}

int manual_page(const char *name, FILE *out)
{
    if (!name) {
        overview(out);
        return 0;
    }
    for (int i = 0; i < commands_n; i++) {
        const struct command *c = commands[i];
        if (strcmp(c->name, name) != 0)
            continue;
        page_head(c->name, c->summary, out);
        fprintf(out, "%s [options] ", c->name);
        put_troff(c->synopsis, out);
        fputs("\n.SH DESCRIPTION\n.nf\n", out);
        put_troff(c->details ? c->details : c->summary, out);
        fputs("\n.fi\n", out);
        put_options(c, out);
        return 0;
    }
    return 2;
}
