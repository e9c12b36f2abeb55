unit_test(objective_pipedream LIBS papers sample)
unit_test(objective_pipedream_inputs LIBS papers model sample)
