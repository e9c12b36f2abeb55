if(NOT FORELINE_PAPERS)
    return()
endif()
unit_test(objective_plan LIBS papers study sample)
