# When cpack runs: version and time are those of the commit, so that a commit has one set of packages.
set(at ${CPACK_FORELINE_SOURCE})
execute_process(COMMAND git -C ${at} show -s --abbrev=8 --date=format:%Y%m%d "--format=%ct|+git%cd.%h|%an <%ae>"
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(commit MATCHES "^([0-9]+)\\|(.*)\\|(.*)$")
    set(ENV{SOURCE_DATE_EPOCH} ${CMAKE_MATCH_1})
    set(CPACK_DEBIAN_PACKAGE_VERSION ${CPACK_PACKAGE_VERSION}${CMAKE_MATCH_2})
    set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${CMAKE_MATCH_3}) # the commit's author
elseif("$ENV{SOURCE_DATE_EPOCH}" STREQUAL "")
    message(FATAL_ERROR "${at} is no git checkout: set SOURCE_DATE_EPOCH to the time of the source")
else()
    set(CPACK_DEBIAN_PACKAGE_VERSION ${CPACK_PACKAGE_VERSION})
    set(CPACK_DEBIAN_PACKAGE_MAINTAINER "nobody in particular <nobody@invalid>")
endif()

# Modules are refused by what is not of their own build.
set(same "(= ${CPACK_DEBIAN_PACKAGE_VERSION})")
set(CPACK_DEBIAN_FORELINE_PACKAGE_DEPENDS "libforeline0 ${same}, foreline-worker ${same}")
set(CPACK_DEBIAN_FORELINE_PACKAGE_RECOMMENDS "gnuplot-nox, foreline-papers ${same}")
set(CPACK_DEBIAN_PAPERS_PACKAGE_DEPENDS "libforeline0 ${same}")
set(CPACK_DEBIAN_FORELINE_PACKAGE_SUGGESTS "foreline-worker-mpi ${same}, foreline-doc, libsimgrid-dev, python3")
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3, foreline ${same}, libforeline0 ${same}")
# Loaded, not linked (exec/device/cpu/gemm.c).
foreach(computes IN ITEMS WORKER MPI LIB)
    set(CPACK_DEBIAN_${computes}_PACKAGE_DEPENDS libopenblas0)
    set(CPACK_DEBIAN_${computes}_PACKAGE_RECOMMENDS libdnnl2)
endforeach()
set(CPACK_DEBIAN_MPI_PACKAGE_RECOMMENDS "libdnnl2, openmpi-bin")
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libforeline0 ${same}")
