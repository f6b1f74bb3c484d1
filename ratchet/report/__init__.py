"""The edge that shows: a `ReportRecord` → Markdown, a terminal table, plain lines."""
