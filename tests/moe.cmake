# Models with experts, and what happens where links are shared.
unit_test(contention LIBS lowered topologies)
unit_test(moe LIBS lowered model partition topologies)
unit_test(experts LIBS model sample)
