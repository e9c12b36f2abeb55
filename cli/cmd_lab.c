/* lab - the commands of foreline-lab. */
#include "cli/command.h"

const struct command command_lab = {
    .name = "lab",
    .synopsis = "scoreboard FILE... | kernels FILE",
    .summary = "score predictions against published runs, fit constants (foreline-lab)",
    .details =
        "foreline lab scoreboard predicts runs that others measured and published, and prints the "
        "error\n"
        "of the predictions. foreline lab kernels fits constants of kernels and collectives to "
        "tables\n"
        "of measurements. Both are commands of foreline-lab, a program that is installed beside\n"
        "foreline; foreline lab COMMAND --help explains them.",
    .examples = "",
    .lab_option = "",
};
