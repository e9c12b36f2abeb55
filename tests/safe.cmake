# Strangers' files, connections and signals.
unit_test(screen LIBS host)
unit_test(tool LIBS host)
unit_test(leftover LIBS host)
unit_test(process LIBS host)
unit_test(cache LIBS topologies core)

add_test(NAME safe.files COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/safe_files.sh $<TARGET_FILE:foreline>)
set_tests_properties(safe.files PROPERTIES TIMEOUT 120)
add_test(NAME safe.ownership COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/safe_ownership.py $<TARGET_FILE:foreline> ${PROJECT_SOURCE_DIR})
set_tests_properties(safe.ownership PROPERTIES TIMEOUT 120)
add_test(NAME safe.processes COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/safe_processes.sh $<TARGET_FILE:foreline>)
set_tests_properties(safe.processes PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)
add_test(NAME safe.inputs COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/safe_inputs.py $<TARGET_FILE:foreline>)
set_tests_properties(safe.inputs PROPERTIES TIMEOUT 120)

unit_test(door LIBS exec)
add_test(NAME safe.strangers COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/safe_strangers.sh $<TARGET_FILE:foreline>)
set_tests_properties(safe.strangers PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)
add_test(NAME safe.signals COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/safe_signals.sh $<TARGET_FILE:foreline>)
set_tests_properties(safe.signals PROPERTIES TIMEOUT 120)

# Commands with something wrong in them: words and files changed at random.
add_test(NAME cli.mutations COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/mutate.py $<TARGET_FILE:foreline>
    ${CMAKE_CURRENT_SOURCE_DIR}/cli --runs 5000)
set_tests_properties(cli.mutations PROPERTIES LABELS long TIMEOUT 3600)

# Files that are large, deep, wide, or claim to be: a share of them, small; the long test has all, as large as they may be,
# and twice the 2 s, since programs that share caches and cores take CPU time from each other.
add_test(NAME safe.hostile COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/hostile.py $<TARGET_FILE:foreline> --share 0.35)
set_tests_properties(safe.hostile PROPERTIES TIMEOUT 300)
add_test(NAME safe.hostile_full COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/hostile.py $<TARGET_FILE:foreline> --full --cpu 4)
set_tests_properties(safe.hostile_full PROPERTIES LABELS long TIMEOUT 7200 SKIP_RETURN_CODE 77)
