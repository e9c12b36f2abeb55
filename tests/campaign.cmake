# Trainings of weeks.
unit_test(campaign LIBS campaign)
add_test(NAME cli.campaign_platforms COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/campaign_platforms.py ${quick}/bin/foreline 6)
add_test(NAME exec.campaigns COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/campaigns.py ${quick}/bin/foreline 3)
set_tests_properties(exec.campaigns PROPERTIES TIMEOUT 240)
# Times mean something on an idle machine only.
add_test(NAME exec.campaigns.long COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/campaigns.py $<TARGET_FILE:foreline> 60 5)
set_tests_properties(exec.campaigns.long PROPERTIES LABELS long TIMEOUT 3600 RUN_SERIAL ON)
