unit_test(auto_filters LIBS study sample)
# Searches every input many times, without one filter after the other: minutes.
set_tests_properties(unit.auto_filters PROPERTIES LABELS "unit;long" TIMEOUT 1200)
unit_test(nearest LIBS study)
add_test(NAME unit.nearest_more COMMAND test_nearest 12)
set_tests_properties(unit.nearest_more PROPERTIES LABELS long TIMEOUT 1200)
unit_test(auto_brute LIBS study)
set_tests_properties(unit.auto_brute PROPERTIES TIMEOUT 600)
add_test(NAME unit.auto_brute_more COMMAND test_auto_brute 40 1)
add_test(NAME unit.auto_brute_knobs COMMAND test_auto_brute 12 1 0 4)
add_test(NAME unit.auto_brute_scarce COMMAND test_auto_brute 2 509 0 4)
unit_test(auto_knobs LIBS study)
set_tests_properties(unit.auto_knobs PROPERTIES LABELS "unit;long" TIMEOUT 1200)
set_tests_properties(unit.auto_brute_more unit.auto_brute_knobs unit.auto_brute_scarce PROPERTIES LABELS long TIMEOUT 1200)
add_test(NAME plan.nested COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/nested.py ${quick}/bin/foreline drawn 22 54 31)
set_tests_properties(plan.nested PROPERTIES TIMEOUT 300)
add_test(NAME plan.nested.drawn COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/nested.py ${quick}/bin/foreline drawn 0 200)
add_test(NAME plan.nested.pairs COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/nested.py ${quick}/bin/foreline pairs 0 816 7)
set_tests_properties(plan.nested.drawn plan.nested.pairs PROPERTIES LABELS long TIMEOUT 7200)
add_executable(all_cuts all_cuts.c)
target_link_libraries(all_cuts PRIVATE study)
add_dependencies(all_cuts igraph simgrid) # of the same build
add_test(NAME plan.graphs
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/graphs.py ${quick}/bin/foreline exact $<TARGET_FILE:all_cuts> 0 400 41)
add_test(NAME plan.graphs.all
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/graphs.py ${quick}/bin/foreline exact $<TARGET_FILE:all_cuts> 0 400)
add_test(NAME plan.granularity
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/granularity.py ${quick}/bin/foreline 0 500)
add_test(NAME plan.graphs.alone
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/graphs.py ${quick}/bin/foreline alone 0 9999 7)
set_tests_properties(plan.graphs.all plan.granularity plan.graphs.alone PROPERTIES LABELS long TIMEOUT 7200)
add_test(NAME simulate.timeline COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/timeline_columns.py $<TARGET_FILE:foreline>)
add_test(NAME simulate.what_if COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/what_if.py $<TARGET_FILE:foreline>)
add_test(NAME plan.workers COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/plan_workers.sh $<TARGET_FILE:foreline> few)
add_test(NAME plan.workers.long COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/plan_workers.sh ${quick}/bin/foreline all)
set_tests_properties(plan.workers.long PROPERTIES LABELS long TIMEOUT 3600)
unit_test(experiment LIBS study)
unit_test(equal LIBS study)
unit_test(sweep_database LIBS study)
target_compile_definitions(test_sweep_database PRIVATE _DEFAULT_SOURCE)
unit_test(pool LIBS study)

foreach(part IN ITEMS killed shards ranks interrupted faults runs pages retried progress examples hidup)
    add_test(NAME sweep.${part}
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/sweep.sh $<TARGET_FILE:foreline> ${part})
    set_tests_properties(sweep.${part} PROPERTIES LABELS sweep TIMEOUT 1200 SKIP_RETURN_CODE 77)
endforeach()
# Seven experiments of up to 120 plans.
set_tests_properties(sweep.hidup PROPERTIES LABELS "sweep;long")

add_test(NAME report.directory
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/report_directory.sh $<TARGET_FILE:foreline>)
set_tests_properties(report.directory PROPERTIES LABELS cli TIMEOUT 300 SKIP_RETURN_CODE 77)
add_test(NAME plan.equal COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/equal_answers.sh $<TARGET_FILE:foreline>)
set_tests_properties(plan.equal PROPERTIES LABELS long TIMEOUT 900)
add_test(NAME plan.recipes COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/recipes.py $<TARGET_FILE:foreline>)
set_tests_properties(plan.recipes PROPERTIES LABELS long TIMEOUT 3600)
