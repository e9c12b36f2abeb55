/* page_files.h - style sheet and script of pages as strings: a page is one file. Private. */
#ifndef PLOTS_PAGE_FILES_H
#define PLOTS_PAGE_FILES_H

extern const char page_style[], page_script[];

#endif
