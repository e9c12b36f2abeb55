/* main - dispatch to a command; report failure in one place. Exit: 0 done, 1 failed, 2 usage. */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/manual.h"
#include "core/base/file.h"
#include "core/base/limit.h"
#include "core/base/path.h"
#include "core/base/text.h"
#include "exec/core_type.h"
#include "host/leftover.h"
#include "host/screen.h"

#define COMMAND(name) extern const struct command command_##name;
#include "cli/commands.def"
#undef COMMAND

const struct command *const commands[] = {
#define COMMAND(name) &command_##name,
#include "cli/commands.def"
#undef COMMAND
};
const int commands_n = sizeof commands / sizeof *commands;

static char command_line[4096];

enum status command_expect(const struct invocation *in, int operands, const char *what)
{
    return in->operands == operands ? STATUS_OK
                                    : error_set(STATUS_USAGE, "expected %s, got %d operand%s", what,
                                                in->operands, in->operands == 1 ? "" : "s");
}

static void remember(int argc, char **argv)
{
    size_t n = 0;
    for (int i = 0; i < argc && n < sizeof command_line; i++) {
        char word[sizeof command_line] = "foreline";
        if (i > 0) /* output files name no path of this machine */
            path_label(argv[i], word, sizeof word);
        int k = snprintf(command_line + n, sizeof command_line - n, "%s%s", i ? " " : "", word);
        n += k > 0 ? (size_t)k : 0;
    }
}

static void usage(FILE *out)
{
    fputs("usage: foreline <command> [options] [operands]\n\n"
          "Forecast a training pipeline on a datacenter that may not exist yet, then run the very\n"
          "same plan on one that does.\n\n",
          out);
    for (int i = 0; i < commands_n; i++)
        fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\nforeline <command> --help explains a command. Times are s, ms, us, ns; rates 50GBps\n"
          "(bytes) or 400Gbps (bits); sizes 16MiB or 80GB (1 GB = 1e9 bytes), counts 1536,\n"
          "128K (128,000), 2M, 1B or 1T. --json prints SI units. Exit status: 0 done, 1 failed, 2 "
          "usage.\n",
          out);
}

static int fail(const struct command *c, enum status st)
{
    fprintf(stderr, "foreline %s: %s\n", c->name, error_message());
    return st == STATUS_USAGE ? 2 : 1;
}

/* A model gets its profile: -o may be the model. */
static enum status keep_inputs(const struct invocation *in)
{
    struct arguments a = in->a;
    if (in->operands > 0 && !strcmp(in->operand[0], "profile"))
        a.output = NULL;
    return arguments_keep_inputs(&a, in->operand, in->operands);
}

static int run(const struct command *c, int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            manual_help(c, stdout);
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
        st = keep_inputs(&in);
    if (st == STATUS_OK)
        st = c->run(&in);
    int code = st == STATUS_OK ? 0 : fail(c, st);
    if (st != STATUS_OK && error_signal() != 0)
        interrupt_end(error_signal());
    int cause = file_flush(stdout);
    if (cause != 0) { /* a full disk must not look like success */
        fprintf(stderr, "foreline: standard output: %s\n", strerror(cause));
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

int main(int argc, char **argv)
{
    mallopt(M_MMAP_THRESHOLD, 256 << 20); /* searches take and give back the same large blocks */
    mallopt(M_TRIM_THRESHOLD, 512 << 20);
    screen_protect();
    keep_order();
    leftover_watch_files();
    core_type_set();          /* before a thread, and for all that is started */
    signal(SIGXFSZ, SIG_IGN); /* a file of the greatest allowed size is an error like any other */
    remember(argc, argv);
    const char *word = argc > 1 ? argv[1] : "";
    if (!strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h")) {
        usage(stdout);
        return 0;
    }
    if (!strcmp(word, "--version")) {
        puts(foreline_version);
        return 0;
    }
    if (!strcmp(word, "manual")) /* for the build: troff pages from the same tables */
        return manual_page(argc > 2 ? argv[2] : NULL, stdout);
    const char *nearest = NULL;
    char hint[TEXT_HINT];
    size_t best = text_reach(word);
    for (int i = 0; i < commands_n; i++) {
        if (!strcmp(word, commands[i]->name))
            return run(commands[i], argc - 2, argv + 2);
        nearest = text_is_nearer(word, commands[i]->name, &best) ? commands[i]->name : nearest;
    }
    if (*word)
        fprintf(stderr, "foreline: no command is called '%s'%s foreline --help lists them\n", word,
                *text_hint(nearest, hint) ? hint : ";");
    else
        usage(stderr);
    return 2;
}
