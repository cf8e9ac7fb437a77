"""Files and URLs. No other folder opens the files that a build file or a command line names.

storage: start here: read, list, write and publish files, on local disks and in object stores.
urls, azure_names: join and resolve URLs. options: [storage] of the build file. allowed_code: whether [[map]] may run.
patterns: what a build file says of files. listing, listed_pages, disk_listing, not_data: what that matches, a page of a
store at a time, with the links of a disk, and what a glob never takes. listing_after: the part that sorts after a name.
pins: notice a change.
read_file: reads local and remote files alike. read_ahead: small ones of a store, before they are asked for.
whole_objects: reads such a file with one request.
local_files, remote_files: where they differ. retries: tries again.
refusals: what a store refuses for good, and the fix. libraries: has the stores' libraries try again by our rules.
objects: writes an object once, under its final name. local_copies: files at a URL as files here.
attempts: unfinished work under names of its own. tokenizers: the tokenizer of an output. hub: that of a model.
stored_shards: its shards as files on this machine, and their documents. pinned_inputs: the input files that it pinned.
opened_tombstones: what was removed from it.
manifests: as all processes read them. packed_listing: what a folder holds, in little memory. new_folder: a folder that
appears at once. json_lines: files with an object in each line.
signs_of_life: which processes live, by names of files that change.
parallel_requests: several requests at a time. redaction: no secret in a message. printable: no control character in
one.
out_of_reach: what a store may keep of removed files. crashpoints: places where the tests kill a build.
"""
