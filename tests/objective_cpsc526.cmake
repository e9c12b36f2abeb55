unit_test(objective_cpsc526 LIBS published model sample)
