unit_test(objective_pipedream LIBS partition sample)
unit_test(objective_pipedream_inputs LIBS partition model sample)
