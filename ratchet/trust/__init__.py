"""Try the machine and the gate: calibrate, soak, replay."""
