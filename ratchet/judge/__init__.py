"""Pure judgement: comparison + policy → outcome; outcomes → verdict; verdict + baseline → next baseline."""
