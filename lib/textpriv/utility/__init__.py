"""What a sanitized text is still worth: its language, its summary, and predicting that."""
