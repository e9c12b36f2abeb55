/* Dispatch to a command; report failure in one place. */
#include "cli/program.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/interrupt.h"
#include "cli/lab.h"
#include "cli/manual.h"
#include "core/base/file.h"
#include "core/base/limit.h"
#include "core/base/path.h"
#include "core/base/text.h"
#include "exec/core_type.h"
#include "host/leftover.h"
#include "host/screen.h"

static char command_line[4096];

enum status command_expect(const struct invocation *in, int operands, const char *what)
{
    return in->operands == operands ? STATUS_OK
                                    : error_set(STATUS_USAGE, "expected %s, got %d operand%s", what,
                                                in->operands, in->operands == 1 ? "" : "s");
}

static void program_note_command(const struct command_table *p, int argc, char **argv)
{
    size_t n = 0;
    for (int i = 0; i < argc && n < sizeof command_line; i++) {
        char word[sizeof command_line] = "";
        if (i > 0) /* output files name no path of this machine */
            path_label(argv[i], word, sizeof word);
        int k =
            snprintf(command_line + n, sizeof command_line - n, "%s%s", i ? " " : p->name, word);
        n += k > 0 ? (size_t)k : 0;
    }
}

static void usage(const struct command_table *p, FILE *out)
{
    fprintf(out, "usage: %s COMMAND [options] [operands]\n\n%s\n", p->name, p->purpose);
    for (int i = 0; i < p->commands; i++)
        fprintf(out, "  %-10s %s\n", p->command[i]->name, p->command[i]->summary);
    fprintf(out,
            "\n%s COMMAND --help explains a command. Times are s, ms, us, ns; rates 50GBps\n"
            "(bytes) or 400Gbps (bits); sizes 16MiB or 80GB (1 GB = 1e9 bytes), counts 1536,\n"
            "128K (128,000), 2M, 1B or 1T. --json prints SI units. Exit status: 0 done, 1 failed, "
            "2 usage.\n",
            p->name);
}

/* The first screen: what it is, what to type, where the rest is. */
static void program_welcome(const struct command_table *p, FILE *out)
{
    if (!p->start) {
        usage(p, out);
        return;
    }
    fprintf(out,
            "%s\nstart with:\n%s\n"
            "%s --help lists all commands, %s COMMAND --help explains one\n",
            p->purpose, p->start, p->name, p->name);
}

static int program_fail(const struct command_table *p, const struct command *c, enum status st)
{
    fprintf(stderr, "%s %s: %s\n", p->name, c->name, error_message());
    return st == STATUS_USAGE ? 2 : 1;
}

/* A model gets its profile: -o may be the model. */
static enum status program_keep_inputs(const struct invocation *in)
{
    struct arguments a = in->a;
    if (in->operands > 0 && !strcmp(in->operand[0], "profile"))
        a.output = NULL;
    return arguments_keep_inputs(&a, in->operand, in->operands);
}

static int program_run_command(const struct command_table *p, const struct command *c, int argc,
                               char **argv)
{
    if (c->lab_option && lab_takes(c->lab_option, &argc, argv))
        return program_fail(p, c, lab_become(c->lab_command, argc, argv));
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            manual_help(p, c, i + 1 < argc ? argv[i + 1] : i > 0 ? argv[0] : "", stdout);
            return 0;
        }
    taker_set takers = settings_takers(c->name);
    struct invocation in = {arguments_defaults(takers),
                            argc,
                            argv,
                            {.version = foreline_version, .command = command_line}};
    enum status st = limits_inherit();
    if (st == STATUS_OK)
        st = arguments_parse(&in.a, takers, &in.operands, argv);
    in.operand[in.operands] = NULL;
    if (st == STATUS_OK)
        st = limits_set(in.a.limits);
    if (st == STATUS_OK)
        st = program_keep_inputs(&in);
    if (st == STATUS_OK)
        st = c->run(&in);
    int code = st == STATUS_OK ? 0 : program_fail(p, c, st);
    if (st != STATUS_OK && error_signal() != 0)
        interrupt_end(error_signal());
    int cause = file_flush(stdout);
    if (cause != 0) { /* a full disk must not look like success */
        fprintf(stderr, "%s: standard output: %s\n", p->name, strerror(cause));
        return 1;
    }
    return code;
}

/* Where both streams are one file (2>&1), lines stand in the order in which they are printed. */
static void keep_order(void)
{
    struct stat out, err;
    if (fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
        out.st_dev == err.st_dev && out.st_ino == err.st_ino)
        setvbuf(stdout, NULL, _IOLBF, 0);
}

int program_main(const struct command_table *p, int argc, char **argv)
{
    mallopt(M_MMAP_THRESHOLD, 256 << 20); /* searches take and give back the same large blocks */
    mallopt(M_TRIM_THRESHOLD, 512 << 20);
    screen_protect();
    keep_order();
    leftover_watch_files();
    core_type_set();          /* before a thread, and for all that is started */
    signal(SIGXFSZ, SIG_IGN); /* a file of the greatest allowed size is an error like any other */
    program_note_command(p, argc, argv);
    const char *word = argc > 1 ? argv[1] : "";
    if (!strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h")) {
        usage(p, stdout);
        return 0;
    }
    if (!strcmp(word, "--version")) {
        puts(foreline_version);
        return 0;
    }
    if (!strcmp(word, "manual") && argc > 2 && !strcmp(argv[2], "tables")) {
        manual_tables(stdout);
        return 0;
    }
    if (!strcmp(word, "manual")) /* for the build: troff pages from the same tables */
        return manual_page(p, argc > 2 ? argv[2] : NULL, stdout);
    const char *nearest = NULL;
    char hint[TEXT_HINT];
    size_t best = text_reach(word);
    for (int i = 0; i < p->commands; i++) {
        const char *name = p->command[i]->name;
        if (!strcmp(word, name))
            return program_run_command(p, p->command[i], argc - 2, argv + 2);
        nearest = text_is_nearer(word, name, &best) ? name : nearest;
    }
    if (*word)
        fprintf(stderr, "%s: unknown command '%s'%s list them with %s --help\n", p->name, word,
                *text_hint(nearest, hint) ? hint : ";", p->name);
    else
        program_welcome(p, stderr);
    return 2;
}
