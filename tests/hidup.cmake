unit_test(hidup LIBS published sample)
unit_test(hidup_search LIBS published)
unit_test(hidup_plan LIBS published study sample)
