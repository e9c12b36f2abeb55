unit_test(objective_cpsc526 LIBS papers model sample)
unit_test(cpsc526_parts LIBS papers)
