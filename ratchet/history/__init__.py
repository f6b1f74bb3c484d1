"""Main over time: the store of past runs, trends, pages, and the search for the commit that changed a case."""
