unit_test(objective_cpsc526 LIBS published model sample)
unit_test(cpsc526_parts LIBS published)
