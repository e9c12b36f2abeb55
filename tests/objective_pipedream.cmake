unit_test(objective_pipedream LIBS published sample)
unit_test(objective_pipedream_inputs LIBS published model sample)
