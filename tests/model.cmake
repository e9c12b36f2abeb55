unit_test(zoo LIBS model)
unit_test(pipedream LIBS model)
unit_test(import LIBS model)
unit_test(architecture LIBS model)
