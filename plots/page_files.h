/* page_files.h - page.css and page.js as strings, so that a page needs no other file. Private. */
#ifndef PLOTS_PAGE_FILES_H
#define PLOTS_PAGE_FILES_H

extern const char page_style[], page_script[];

#endif
