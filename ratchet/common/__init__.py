"""Code that several tools share and the core does not need: moves of a baseline, pushes of files, traces of calls, rooflines."""
