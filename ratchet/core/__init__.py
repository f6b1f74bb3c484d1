"""Measure two trees, judge, report. Nothing here imports a tool (docs/architecture.md)."""
