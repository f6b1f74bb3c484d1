"""Output of builds, kept for later trees of the same content: it saves a build, and no verdict needs it."""
