"""SentencePiece's models: pieces over text in which spaces are U+2581.

scored_pieces: pieces with scores: start here. piece_text: what models of such pieces have in common.
learned_pieces: the learners. piece_options: what a build file asks of them.
converted: models of a tokenizer.json made from such a model.
"""
