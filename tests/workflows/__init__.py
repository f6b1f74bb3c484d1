"""Tests that run the workflows as GitHub would."""
