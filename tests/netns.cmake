unit_test(faults LIBS toy sim)
unit_test(wiring LIBS exec sim topologies)
unit_test(wiring_routes LIBS exec sim topologies)
target_sources(test_wiring_routes PRIVATE random_platform.c)

add_executable(netns_flow netns_flow.c)
add_test(NAME emulate.netns
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/netns.sh $<TARGET_FILE:foreline> $<TARGET_FILE:netns_flow>)
set_tests_properties(emulate.netns PROPERTIES TIMEOUT 1200 SKIP_RETURN_CODE 77)

# Thirty runs of each of three numbers of flows, beside predictions over 4,000 hashes.
add_test(NAME emulate.ecmp_distribution
    COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/ecmp_distribution.py ${quick}/bin/foreline 30)
set_tests_properties(emulate.ecmp_distribution PROPERTIES TIMEOUT 5400 SKIP_RETURN_CODE 77 LABELS long)
