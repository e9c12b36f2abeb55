unit_test(objective_plan LIBS study sample)
