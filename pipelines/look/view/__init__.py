"""What `tokcore view` serves: README.md beside this file says how, and who may ask.

shelf: the outputs and tokenizers that were named. answers: what the page asks, as values that JSON knows.
scanning: documents from a place on, searches among them. server: requests, and which are refused.
view_page: the page itself.
"""
