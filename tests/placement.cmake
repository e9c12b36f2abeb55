unit_test(placement LIBS partition)
unit_test(metis LIBS partition sample)
unit_test(placement_search LIBS partition)
unit_test(placement_goldens LIBS partition)
set_tests_properties(unit.placement_goldens PROPERTIES TIMEOUT 600 COST 100) # begin early
