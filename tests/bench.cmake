add_library(goal_replay STATIC goal_replay.c)
target_link_libraries(goal_replay PUBLIC flags PRIVATE PkgConfig::cmocka)

add_library(chakra_read STATIC chakra_read.c)
target_link_libraries(chakra_read PUBLIC core PRIVATE PkgConfig::cmocka)

unit_test(workload LIBS sim sample)
unit_test(export LIBS sim racks goal_replay chakra_read)
