"""What is made from the repository and is no part of the library."""
