unit_test(objective_cpsc526 LIBS partition model sample)
