"""What a sanitized text is still worth: sentiment, grammar, summaries, and predicting it."""
