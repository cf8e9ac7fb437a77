"""Ready rules about the quality of texts: which documents are worth keeping.

rules: the table of all rules. measures: what a rule says of a text. words: the words that rules count.
gopher, c4, label_script: the rules. overlap: runs of words that texts share with test items.
"""
