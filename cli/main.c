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
        .purpose = "foreline answers three questions: how to split a model over a cluster, how "
                   "fast it will train,\n"
                   "and how accurate the prediction is. It plans, predicts, and runs the same plan "
                   "for real.\n",
        .start =
            "  foreline plan --model llama3-70b --platform rail:nodes=8,type=H100 -o plan.json\n"
            "                                 the best plan for 64 H100: how fast, does it fit, "
            "why\n"
            "  foreline simulate plan.json    where the time and the memory of an iteration go\n"
            "  foreline sweep FILE.yml        compare networks, GPUs, batches (docs/how-to)\n"
            "  foreline validate --model gpt-tiny --platform laptop -o check\n"
            "                                 predict plans, run them on this machine, compare\n"
            "  foreline explore               plan and compare in the browser\n",
        .command = commands,
        .commands = commands_n,
    };
    return program_main(&foreline, argc, argv);
}
