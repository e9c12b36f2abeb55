/* Finds the module of the published papers. */
#include "model/papers.h"

enum status papers_load(const char *symbol, const void **out)
{
    enum status st = module_load(PAPERS_MODULE, symbol, out);
    return st == STATUS_OK
               ? st
               : error_context(st, "this needs the published papers, which are in the package "
                                   "foreline-papers and the target papers (-DFORELINE_PAPERS=ON)");
}
