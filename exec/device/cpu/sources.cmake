# The CPU device and the training data, for exec/ and for the double build of tests/. Sets
#   CPU_SOURCES     layers, stage, corpus: in terms of `real`, float unless EXEC_REAL says otherwise
#   DEVICE_SOURCES  the devices: float only
#   CPU_LIBRARIES   what both need
find_packaged(openblas openblas)
find_path(ONEDNN_INCLUDE dnnl.h)
if(NOT TARGET cpu_libraries)
    add_library(cpu_libraries INTERFACE)
    target_link_libraries(cpu_libraries INTERFACE Threads::Threads m ${CMAKE_DL_LIBS})
    if(FORELINE_STATIC)
        target_compile_definitions(cpu_libraries INTERFACE FORELINE_STATIC)
        target_link_libraries(cpu_libraries INTERFACE packaged_openblas)
    else() # loaded when something multiplies
        target_include_directories(cpu_libraries SYSTEM INTERFACE ${openblas_INCLUDE_DIRS})
    endif()
    if(ONEDNN_INCLUDE)
        target_compile_definitions(cpu_libraries INTERFACE FORELINE_ONEDNN)
        target_include_directories(cpu_libraries SYSTEM INTERFACE ${ONEDNN_INCLUDE})
    else()
        message(STATUS "oneDNN is not installed (libdnnl-dev): CPUs multiply by OpenBLAS")
    endif()
endif()
set(CPU_LIBRARIES cpu_libraries)

set(cpu ${CMAKE_CURRENT_LIST_DIR})
file(GLOB CPU_SOURCES CONFIGURE_DEPENDS ${cpu}/*.c)
list(REMOVE_ITEM CPU_SOURCES ${cpu}/device.c ${cpu}/state.c)
file(GLOB sharded CONFIGURE_DEPENDS ${cpu}/../sharded/*.c)
list(REMOVE_ITEM sharded ${cpu}/../sharded/device.c)
list(APPEND CPU_SOURCES ${cpu}/../../corpus.c ${sharded})
set(DEVICE_SOURCES ${cpu}/device.c ${cpu}/state.c ${cpu}/../paced.c ${cpu}/../gpu.c
    ${cpu}/../sharded/device.c)

# Loops over channels are written to be vectorised; nothing here reads errno or traps. None of these
# options lets the compiler reorder a sum.
set_source_files_properties(${CPU_SOURCES} PROPERTIES COMPILE_OPTIONS
    "$<$<NOT:$<CONFIG:Debug>>:-O3;-fno-math-errno;-fno-trapping-math>;-ffp-contract=off")

# The shipped text as an array of bytes.
set(text ${cpu}/../../data/pride-and-prejudice.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${text})
file(READ ${text} TEXT_BYTES HEX)
string(REGEX REPLACE "(..)" "0x\\1," TEXT_BYTES "${TEXT_BYTES}")
string(REGEX REPLACE "(0x0a,)" "\\1\n    " TEXT_BYTES "${TEXT_BYTES}") # a line of text each
configure_file(${cpu}/../../data/text.c.in ${CMAKE_CURRENT_BINARY_DIR}/text.c @ONLY)
list(APPEND CPU_SOURCES ${CMAKE_CURRENT_BINARY_DIR}/text.c)
