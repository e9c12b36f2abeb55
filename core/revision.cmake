# Writes OUT, a header with the version: release, and the commit when there is one. Run in every build;
# a file that says the same already is left alone, so that nothing is compiled again.
set(revision "")
if(GIT)
    execute_process(COMMAND ${GIT} describe --always --dirty
        WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE revision
        OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(revision)
    set(revision " (${revision})")
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define FORELINE_VERSION \"${VERSION}${revision}\"\n")
