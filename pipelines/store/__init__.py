"""Files and URLs: the only folder that touches them.

storage: the door: read, list, write, publish, on local disk and object stores. urls: join and resolve them.
read_file, listing, pins: alike for both. local_files, remote_files: where they differ. retries: what is tried again.
attempts: unfinished work under names of its own. redaction: no secret in a message.
crashpoints: places where the tests kill a build.
"""
