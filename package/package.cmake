# Packages of Debian: `cpack --config build/package/CPackConfig.cmake -B DIR -G DEB`. What belongs into which is said by the COMPONENT of
# install(); version and dependencies by deb.cmake, what Debian wants besides by stage.cmake, both when cpack runs.
set(CPACK_GENERATOR DEB)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGE_NAME foreline)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL foreline worker lib dev doc python)
if(FORELINE_PAPERS)
    list(APPEND CPACK_COMPONENTS_ALL papers)
endif()
if(TARGET foreline-worker-mpi)
    list(APPEND CPACK_COMPONENTS_ALL mpi)
endif()
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/package/deb.cmake)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/package/stage.cmake)
set(CPACK_FORELINE_SOURCE ${PROJECT_SOURCE_DIR})

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_LIB_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DOC_PACKAGE_SECTION doc)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_LIB_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/package/triggers)
set(CPACK_DEBIAN_DOC_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/package/prerm)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_FORELINE_PACKAGE_NAME foreline)
set(CPACK_DEBIAN_WORKER_PACKAGE_NAME foreline-worker)
set(CPACK_DEBIAN_MPI_PACKAGE_NAME foreline-worker-mpi)
set(CPACK_DEBIAN_LIB_PACKAGE_NAME libforeline0)
set(CPACK_DEBIAN_PAPERS_PACKAGE_NAME foreline-papers)
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libforeline-dev)
set(CPACK_DEBIAN_DOC_PACKAGE_NAME foreline-doc)
set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-foreline)

set(about "foreline cuts a model over a cluster, predicts the iteration on a
simulator with contention, runs the same plan for real and says how far
off the prediction was.")
set(CPACK_COMPONENT_FORELINE_DESCRIPTION "forecast of distributed training: plans, simulation, runs
${about}
This is the command, with man pages and completions.")
set(CPACK_COMPONENT_WORKER_DESCRIPTION "forecast of distributed training: a rank over TCP
${about}
This is what trains one rank of a plan; it needs neither SimGrid nor igraph.")
set(CPACK_COMPONENT_MPI_DESCRIPTION "forecast of distributed training: a rank over MPI
${about}
This is what trains one rank of a plan under Open MPI.")
set(CPACK_COMPONENT_LIB_DESCRIPTION "forecast of distributed training: shared library
${about}
This is the library, the modules that it and the command load, and
the platforms.")
set(CPACK_COMPONENT_PAPERS_DESCRIPTION "forecast of distributed training: published partitioners
${about}
This is the module of PipeDream, Piper, PiPPy, HiDup and others, as their
papers have them: plan --objective, and their formats.")
set(CPACK_COMPONENT_DEV_DESCRIPTION "forecast of distributed training: header of the library
${about}
This is what programs that plan and predict are compiled with.")
set(CPACK_COMPONENT_PYTHON_DESCRIPTION "forecast of distributed training: Python package
${about}
This is the package foreline of Python 3, over the library and the
command.")
set(CPACK_COMPONENT_DOC_DESCRIPTION "forecast of distributed training: documentation
${about}
This is the documentation, with the results that it claims and example
experiments.")
include(CPack)
