"""What is read: corpora, splits, authors, names, embeddings; from strings to ids and back."""
