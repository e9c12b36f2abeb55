/* Finds the module of the published papers. */
#include "model/papers.h"

enum status papers_load(const char *symbol, const void **out)
{
    enum status st = module_load(PAPERS_MODULE, symbol, out);
    return st == STATUS_OK
               ? st
               : error_context(st, "this command needs the module of the published papers; install "
                                   "foreline-papers, or build foreline with -DFORELINE_PAPERS=ON");
}
