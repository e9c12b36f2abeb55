add_library(placement_inputs STATIC placement_inputs.c placement_exact.c)
target_link_libraries(placement_inputs PUBLIC published PRIVATE ${GLPK_LIBRARY} m)
target_include_directories(placement_inputs SYSTEM PRIVATE ${GLPK_INCLUDE_DIR})

unit_test(placement LIBS published)
unit_test(metis LIBS published sample)
unit_test(placement_search LIBS published)
unit_test(placement_goldens LIBS published)
set_tests_properties(unit.placement_goldens PROPERTIES TIMEOUT 600 COST 100) # begin early
unit_test(placement_random LIBS placement_inputs published)
