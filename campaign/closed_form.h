/* closed_form.h - what formulas say of a job that fails and goes on from checkpoints: exponential
 * times between failures, mean `between`; training waits while a checkpoint is written (`save`);
 * a failure costs `recover`, in which further ones may happen.
 * Times in seconds. Source: J. T. Daly, "A higher order estimate of the optimum checkpoint interval
 * for restart dumps", Future Generation Computer Systems 22, 2006; J. W. Young, CACM 17, 1974.
 */
#ifndef CAMPAIGN_CLOSED_FORM_H
#define CAMPAIGN_CLOSED_FORM_H

/* Expected time of so much work with a checkpoint after every `every` of it: exact where the work
 * is a whole number of intervals, the last of which ends with a checkpoint, too. `between` may be
 * INFINITY. */
double closed_form_time(double work, double every, double save, double recover, double between);

/* The interval for which that is least, by bisection of its derivative; Young's and Daly's
 * estimates of it. INFINITY: nothing fails. */
double closed_form_best(double save, double between);
double closed_form_young(double save, double between);
double closed_form_daly(double save, double between);

#endif
