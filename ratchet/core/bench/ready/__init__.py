"""Everything that gets a pair ready sooner than building its case when its turn comes.

`pairs.ReadyPairs.next_pair` gives a pair that is ready; `tricks.Tricks` says what is done for that, and switches each trick off.
"""
