"""Reconstruction attacks on sanitized text: from what a mechanism put out back to the words."""
