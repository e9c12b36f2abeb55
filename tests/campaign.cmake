# Trainings of weeks.
unit_test(campaign LIBS campaign)
