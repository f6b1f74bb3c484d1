"""Everything that shows a result: records become Markdown, terminal tables, plain lines, JSON fields and pictures."""
