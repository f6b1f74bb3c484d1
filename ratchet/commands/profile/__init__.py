"""Profile the cases that a check found changed (`cases`), or named ones (`by_hand`), and store the results (`results`)."""
