"""Judgement: comparison + policy → outcome; outcomes → verdict. Pure: no file, no device, no process, no network."""
