"""WordPiece.

longest_match: the longest token that matches. learned_wordpiece: its learner.
"""
