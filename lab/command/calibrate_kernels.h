/* calibrate_kernels.h - `foreline calibrate --kernels`: cmd_calibrate.c hands over. */
#ifndef LAB_COMMAND_CALIBRATE_KERNELS_H
#define LAB_COMMAND_CALIBRATE_KERNELS_H

#include "cli/command.h"

enum status calibrate_kernels(struct invocation *in) MUST_CHECK;

#endif
