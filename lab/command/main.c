/* main - the foreline-lab command: its table of commands. */
#include "cli/program.h"

extern const struct command command_scoreboard, command_kernels;

int main(int argc, char **argv)
{
    static const struct command *const table[] = {&command_scoreboard, &command_kernels};
    const struct command_table lab = {
        .name = "foreline lab",
        .summary = "score predictions against published runs, fit constants",
        .purpose = "Score predictions against runs that others published, and fit constants to "
                   "what they\nmeasured.\n",
        .command = table,
        .commands = sizeof table / sizeof *table,
    };
    return program_main(&lab, argc, argv);
}
