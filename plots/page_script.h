/* page_script.h - the style sheet and the script of reports (page.h), as C strings. Private. */
#ifndef PLOTS_PAGE_SCRIPT_H
#define PLOTS_PAGE_SCRIPT_H

extern const char page_style[];
extern const char *const page_script[]; /* lines, NULL after the last */

#endif
