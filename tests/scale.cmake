# Topologies of thousands of devices.
unit_test(topology_map)
unit_test(topology)
unit_test(place LIBS partition)
unit_test(ways LIBS sim topologies)
unit_test(generate LIBS sim topologies)
set_tests_properties(unit.ways PROPERTIES TIMEOUT 300)
