add_library(racks STATIC racks.c)
target_link_libraries(racks PUBLIC sample)

unit_test(collective LIBS racks)
unit_test(collective_group LIBS racks)
unit_test(collective_reference LIBS racks)
unit_test(collective_nccl LIBS racks)
unit_test(simulated_calls LIBS sim toy random_plan)
unit_test(fabric LIBS lowered random_plan topologies)

add_library(holdings STATIC holdings.c)
target_link_libraries(holdings PUBLIC core PRIVATE PkgConfig::cmocka m)
unit_test(torus LIBS holdings generated random_plan sample sim topologies)
unit_test(collective_steps LIBS racks holdings random_plan)
unit_test(collective_bounds LIBS generated sample partition sim topologies)

if(TARGET foreline)
    add_test(NAME cli.msccl COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/msccl.sh $<TARGET_FILE:foreline>
        ${CMAKE_CURRENT_SOURCE_DIR}/msccl_files.py)
    add_test(NAME cli.fastest COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/fastest.sh ${quick}/bin/foreline)
    set_tests_properties(cli.msccl cli.fastest PROPERTIES LABELS cli)
endif()
unit_test(msccl LIBS random_plan racks topologies)
unit_test(msccl_json LIBS random_plan topologies)
