"""Files and URLs: the only folder that touches them.

storage: read, list, write, publish, on local disk and object stores. urls: join and resolve them.
attempts: unfinished work under names of its own. redaction: no secret in a message.
crashpoints: places where the tests kill a build.
"""
