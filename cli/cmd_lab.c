/* lab - the commands of foreline-lab. */
#include "cli/command.h"

const struct command command_lab = {
    .name = "lab",
    .synopsis = "scoreboard FILE... | kernels FILE",
    .summary = "score predictions against published runs, fit constants (foreline-lab)",
    .details =
        "foreline lab scoreboard: runs that others measured and published, predicted, and how far\n"
        "off the predictions are. foreline lab kernels: constants of kernels and collectives\n"
        "fitted to tables of measured ones. Both are commands of foreline-lab, a program that is\n"
        "installed beside foreline; foreline lab COMMAND --help explains them.",
    .examples = "",
    .lab_option = "",
};
