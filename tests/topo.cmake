pkg_check_modules(SIMGRID REQUIRED IMPORTED_TARGET simgrid>=3.32)
unit_test(capacity LIBS sim topologies partition)
unit_test(families LIBS generated sample sim topologies)
unit_test(inventory LIBS sim topologies)
unit_test(alike LIBS model partition)
unit_test(routes LIBS sim topologies PkgConfig::SIMGRID)
unit_test(child LIBS sim)
unit_test(paths LIBS generated sample sim topologies)
unit_test(detours LIBS generated sample sim topologies)
unit_test(ns3 LIBS sample sim)
unit_test(platform LIBS sim topologies)
unit_test(platform_faults LIBS sim topologies)
unit_test(platform_features LIBS lowered)
unit_test(plain LIBS sim topologies)
# Both engines on random platforms; ./check has 30 of them.
unit_test(platform_random LIBS lowered)
target_sources(test_platform_random PRIVATE random_platform.c)
add_test(NAME unit.platform_random_more COMMAND test_platform_random 300)
set_tests_properties(unit.platform_random_more PROPERTIES LABELS long TIMEOUT 900)
unit_test(topology_write LIBS sim topologies)
unit_test(topology_bytes LIBS sim)
unit_test(xml_scan LIBS sim)
foreach(name child platform_faults)
    target_sources(test_${name} PRIVATE process.c)
endforeach()
set_tests_properties(unit.platform unit.platform_faults PROPERTIES TIMEOUT 300)
unit_test(machine LIBS topologies)
unit_test(machine_rules LIBS topologies)

# SimGrid's own platforms, where SIMGRID_EXAMPLES says that they are.
add_test(NAME simgrid.examples
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/simgrid_examples.sh $<TARGET_FILE:foreline>)
set_tests_properties(simgrid.examples PROPERTIES LABELS long TIMEOUT 1200 SKIP_RETURN_CODE 77)

# Files of other people's machines and programs, where there are some beside the project.
foreach(part machines programs)
    add_test(NAME real_files.${part}
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/real_files.sh $<TARGET_FILE:foreline>
        ${FORELINE_WORKLOADS}/real ${part})
    set_tests_properties(real_files.${part} PROPERTIES LABELS golden TIMEOUT 300 SKIP_RETURN_CODE 77)
endforeach()
set_tests_properties(real_files.programs PROPERTIES LABELS "golden;long")
add_test(NAME topo.discover COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/discover.sh $<TARGET_FILE:foreline>)
set_tests_properties(topo.discover PROPERTIES TIMEOUT 120)

# Formats that programs of tools/ read: files with something wrong in them, programs that go wrong.
add_executable(machine_answers machine_answers.c)
target_link_libraries(machine_answers PRIVATE topologies)
add_test(NAME topo.machine_programs COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/machine_programs.py
    ${PROJECT_SOURCE_DIR}/tools $<TARGET_FILE:machine_answers> ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/machine)
add_test(NAME topo.programs COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/programs.sh $<TARGET_FILE:foreline>)
set_tests_properties(topo.machine_programs topo.programs PROPERTIES TIMEOUT 120)
