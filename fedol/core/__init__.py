"""The algorithm on arrays alone: who is sure, what they vote, how their answers mix and pool."""
