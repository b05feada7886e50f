"""The family identity: layer 0 of a pool against the tokens of its slots, without a stamp.

`identity_pass` judges a pool by a table of rows: one that the pool elects of its own tokens
(`token_election`), one that was learnt, or a model's.
"""
