"""Files and their forms, of whatever holds text, counts or tokens.

arrow_files: files that pyarrow writes to or reads from. garbage: reading without the garbage collector.
shortage: whether bytes or the machine are to blame for too little memory.
url_files: the door to URLs. hub_files: that to the Hugging Face Hub.
ranged_files: parts of files at a URL, and what is kept of them.
canonical_json: JSON for hashing. jsonable: dataclasses from JSON, and to JSON.
"""
