"""Exact and Markov-chain sampling of the distributions that mechanisms draw from."""
