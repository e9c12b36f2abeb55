/* main - the foreline command: its table of commands. */
#include "cli/program.h"

#define COMMAND(name) extern const struct command command_##name;
#include "cli/commands.def"
#undef COMMAND

const struct command *const commands[] = {
#define COMMAND(name) &command_##name,
#include "cli/commands.def"
#undef COMMAND
};
const int commands_n = sizeof commands / sizeof *commands;

int main(int argc, char **argv)
{
    const struct command_table foreline = {
        .name = "foreline",
        .summary = "cut a model over a cluster, predict, run, compare",
        .purpose = "Forecast a training pipeline on a datacenter that may not exist yet, then run "
                   "the very\nsame plan on one that does.\n",
        .command = commands,
        .commands = commands_n,
    };
    return program_main(&foreline, argc, argv);
}
