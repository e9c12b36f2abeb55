/* run_config.h - `foreline run --config`: a run as a YAML file, or a driver file of PipeDream's
 * runtime (driver.h), and the folder of what it leaves.
 *
 *     name: two-stages              # of the folder; default: the file's name
 *     plan: plan.json               # or model, platform and plan.OPTION, as in experiments; or
 *                                   # import: FILE, model, platform and plan.OPTION of plan import
 *     folder: runs                  # where folders are made; default: here
 *     transport: mpi                # and any other option of `foreline run`
 *     launcher: "srun -n 4"
 *
 * The folder NAME-YYYYMMDD-HHMMSS (UTC; "-2" and so on when that is there) gets
 *     config.yml, plan.json     copies; or the plan that was made; driver.yml: PipeDream's file
 *     terminate                 a script for a shell that ends the run, from any machine that ssh
 *                               takes to this one; where the run is over it does nothing
 *     command, git, machines    command line and version; revision and diff of the working
 *                               directory; hosts and what they are
 *     output.log.RANK           what each worker prints
 *     measurement.json, trace.json, outcome    "done", or why not */
#ifndef STUDY_RUN_CONFIG_H
#define STUDY_RUN_CONFIG_H

#include <stdio.h>

#include "study/experiment.h"
#include "study/planning.h"

enum { RUN_PATH = 4096 };

struct run_config {
    struct experiment file;   /* owns all texts */
    char *driver;             /* PipeDream's file, which the experiment is made of; NULL: none */
    struct arguments make;    /* the plan, or its file, and the folder that the folder is made in */
    char directory[RUN_PATH]; /* the folder; "" before run_config_begin() */
};

/* Read the file and set what it says in *run, which then borrows texts of *out. A setting that was
 * given before, on the command line, is refused: the copy must say how the run was made.
 * STATUS_PARSE with path:line. */
enum status run_config_read(const char *path, struct arguments *run,
                            struct run_config *out) MUST_CHECK;
void run_config_free(struct run_config *c); /* accepts {0} */

/* Make the folder, with all that is known before the run, and the plan; hosts: a hostfile or list,
 * NULL: this machine; what an import has to tell goes to `notes`. *plan is the path of the plan to
 * run (one that was given, not its copy), RUN_PATH bytes. */
enum status run_config_begin(struct run_config *c, const char *hosts, const struct provenance *by,
                             FILE *notes, char *plan) MUST_CHECK;
/* "DIRECTORY/NAME" */
const char *run_config_path(const struct run_config *c, const char *name, char path[RUN_PATH]);
/* Write how it ended: `st`, with the error message. */
enum status run_config_end(const struct run_config *c, enum status st) MUST_CHECK;
/* What a run of the file does, for --dry-run: a shell script of foreline's commands, with `run` as
 * run_config_read() left it. It can be run in any folder, and leaves plan.json, measurement.json
 * and trace.json there. STATUS_NOMEM. */
enum status run_config_tell(const struct run_config *c, const struct arguments *run,
                            FILE *out) MUST_CHECK;

#endif
