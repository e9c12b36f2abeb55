# Folded programs: what they stand for, and that they take as long as the whole ones.
add_library(random_plan STATIC random_plan.c)
target_link_libraries(random_plan PUBLIC sample core)

unit_test(copies LIBS random_plan)
unit_test(fold LIBS random_plan generated sim topologies)
unit_test(unfold LIBS random_plan generated study topologies)
unit_test(symmetry LIBS random_plan sim)
unit_test(large LIBS random_plan generated study topologies)
unit_test(fsdp LIBS lowered generated model topologies)
unit_test(modules LIBS lowered model)
unit_test(offload LIBS lowered)
unit_test(framework LIBS lowered random_plan model partition)
unit_test(tensor_overlap LIBS lowered)
