"""The tables of a build file as classes: what is not given is not set, and the build file's defaults hold.

Written by generate_build_classes.py; do not edit. What each key means, and its default: build_tables.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Literal

Number = int | float | Decimal


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildKeys:
    """[build]"""

    # for people; changes no byte
    name: str | None = None
    # a folder, or a URL of s3, gs or az; a relative path starts at the build file's folder
    output: str | None = None
    # decides which documents are sampled, which go to the validation split, and which ids are drawn
    seed: int | None = None
    # share of records or stored bytes above which the build fails; 1 = never
    max_rejected: Number | None = None
    # how language codes are spelled: bcp47: in its case, zh-Hant-TW, other codes in lower case; none: as they are; not
    # set: bcp47, in outputs that began without it none
    lang_normalize: Literal["bcp47", "none"] | None = None
    # a build with more languages, each of which has files of its own, ends early
    max_languages: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """[[source]]

    >>> Source(lang="en", files="en/*.jsonl").text is None
    True
    """

    # language of all documents; this or lang_field is required
    lang: str | None = None
    # field, column or template that gives each record's language
    lang_field: str | None = None
    # with lang_field: { English = "en", eng = "en" }: a language as records spell it = the code that is meant
    lang_map: Mapping[str, str] | None = None
    # URL, glob or list of them
    files: str | Sequence[str]
    # globs of files to leave out; one without / matches names in any folder
    exclude: str | Sequence[str] | None = None
    # for symbolic links that a pattern meets on a disk: true reads what they lead to, each file once; false leaves them
    # out; not set: they end planning
    follow_links: bool | None = None
    # for a Hugging Face folder, which files names: read only this split of it
    split: str | None = None
    # not set: follows from each file's suffix
    format: Literal["jsonl", "parquet", "arrow", "text", "csv", "tsv", "warc"] | None = None
    # field or column of the text, or a path: data.body, messages[*].content; or a template: {title?}\n{data.body}
    text: str | None = None
    # field, column or template of the document's id
    id: str | None = None
    # what to do with a text that is not valid UTF-8
    invalid_utf8: Literal["reject", "replace", "bytes"] | None = None
    # a longer text is rejected
    max_document_bytes: int | None = None
    # for jsonl, csv, tsv and text: how the files encode text
    encoding: str | None = None
    # for text files: what a document is; not set: a file
    unit: Literal["file", "line", "paragraph"] | None = None
    # for text files: what separates two documents; replaces unit
    separator: str | None = None
    # for csv and tsv: the character between two fields; not set: a comma, for tsv a tab
    delimiter: str | None = None
    # for csv and tsv: fields may be in "quotes"; false: quotes are ordinary characters
    quotes: bool | None = None
    # all documents go to the validation split, whatever shards.validation is
    validation: bool | None = None
    # field, column or template: records with the same value go to the same split, whatever their source
    group: str | None = None
    # for a mixture over sources, and for counts by source; several sources may share a name
    name: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metadata:
    """[metadata] NAME = "TYPE", or { ... }: fields that go with each document into shards; no id depends on them"""

    # of the column
    type: Literal["string", "bool", "int32", "int64", "float32", "float64"]
    # where a record has none: a text, a number, true or false; not set: null
    default: str | bool | Number | None = None
    # a record that has none, and for which there is no default, is rejected
    required: bool | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Map:
    """[[map]]: your own code over documents, before filters; commands run it only with --allow-code"""

    # MODULE:FUNCTION, or an entry point's name: takes a pyarrow.RecordBatch, and returns one
    run: str
    # of what the code's hash does not cover: raise it when that changes
    version: str | None = None
    # of the step in ledgers; not set: the function's; the second one ends in -2
    name: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mask:
    """[mask]: spans that texts do not keep, for counts and shards"""

    # spans of these kinds, as of count.mask
    presets: str | None = None
    # kind = a regular expression of yours: { order = 'ORD-[0-9]{8}' }
    regex: Mapping[str, str] | None = None
    # field or column of spans that another tool found: a list of [start, end] or [start, end, kind]
    spans: str | None = None
    # text, or special token, in place of each span; {kind} is its kind; empty: nothing
    replacement: str | None = None
    # kinds that nothing replaces, whatever replacement is
    remove: Sequence[str] | None = None
    # kinds whose documents are not kept at all
    drop: Sequence[str] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Filter:
    """[[filter]]: documents that are not kept; the rules hold in their order, for counts and shards"""

    # documents are kept where this is true of fields of their records: quality >= 0.7 and license in ['mit']
    keep: str | None = None
    # gopher_quality: keeps texts of words, by Gopher's limits; gopher_repetition: keeps texts that repeat little;
    # c4_quality: keeps texts with whole sentences, by C4's limits; label_script: keeps texts in their language's script
    rule: Literal["gopher_quality", "gopher_repetition", "c4_quality", "label_script"] | None = None
    # of the rule in ledgers; not set: keep, or the ready rule's; the second one ends in -2
    name: str | None = None
    # documents that share n words in a row with a record of these files are not kept: { files = 'evals/*.jsonl', n =
    # 13, field = 'text' }
    ngram_overlap: Mapping[str, str | int | Sequence[str]] | None = None
    # languages, or globs of them: documents of others pass
    langs: str | Sequence[str] | None = None
    # of gopher_quality; not set: 50
    min_doc_words: int | None = None
    # of gopher_quality; not set: 100000
    max_doc_words: int | None = None
    # of gopher_quality; not set: 3
    min_avg_word_length: Number | None = None
    # of gopher_quality; not set: 10
    max_avg_word_length: Number | None = None
    # of gopher_quality; not set: 0.1
    max_symbol_word_ratio: Number | None = None
    # of gopher_quality; not set: 0.9
    max_bullet_lines_ratio: Number | None = None
    # of gopher_quality; not set: 0.3
    max_ellipsis_lines_ratio: Number | None = None
    # of gopher_quality; not set: 0.8
    max_non_alpha_words_ratio: Number | None = None
    # of gopher_quality; not set: 2
    min_stop_words: int | None = None
    # of gopher_quality; not set: the, be, to, of, and, that, have, with
    stop_words: Sequence[str] | None = None
    # of gopher_repetition; not set: 0.3
    dup_line_frac: Number | None = None
    # of gopher_repetition; not set: 0.3
    dup_para_frac: Number | None = None
    # of gopher_repetition; not set: 0.2
    dup_line_char_frac: Number | None = None
    # of gopher_repetition; not set: 0.2
    dup_para_char_frac: Number | None = None
    # of gopher_repetition; not set: 0.2
    top_2_gram: Number | None = None
    # of gopher_repetition; not set: 0.18
    top_3_gram: Number | None = None
    # of gopher_repetition; not set: 0.16
    top_4_gram: Number | None = None
    # of gopher_repetition; not set: 0.15
    dup_5_gram: Number | None = None
    # of gopher_repetition; not set: 0.14
    dup_6_gram: Number | None = None
    # of gopher_repetition; not set: 0.13
    dup_7_gram: Number | None = None
    # of gopher_repetition; not set: 0.12
    dup_8_gram: Number | None = None
    # of gopher_repetition; not set: 0.11
    dup_9_gram: Number | None = None
    # of gopher_repetition; not set: 0.1
    dup_10_gram: Number | None = None
    # of c4_quality; not set: true
    remove_citations: bool | None = None
    # of c4_quality; not set: true
    filter_no_terminal_punct: bool | None = None
    # of c4_quality; not set: 5
    min_num_sentences: int | None = None
    # of c4_quality; not set: 3
    min_words_per_line: int | None = None
    # of c4_quality; not set: 1000
    max_word_length: int | None = None
    # of c4_quality; not set: true
    filter_lorem_ipsum: bool | None = None
    # of c4_quality; not set: true
    filter_javascript: bool | None = None
    # of c4_quality; not set: true
    filter_curly_bracket: bool | None = None
    # of c4_quality; not set: true
    filter_policy: bool | None = None
    # of label_script; not set: 0.5
    min_share: Number | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dedup:
    """[dedup]: of documents, lines or paragraphs that are equal, one is kept, for counts and shards"""

    # text: equal texts; line or paragraph: equal ones within a source, without which their documents go on; or a field
    # or column: documents with the same value; not set: all are kept
    by: str | None = None
    # for by = text: steps after which texts are compared
    normalize: str | None = None
    # which one stays, by the first of these that tells: split:validation, split:train, source_order, a field whose
    # smaller number, or -field whose larger number stays; then the smallest (language, document key)
    prefer: Sequence[str] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Normalize:
    """[normalize]"""

    # applied in this order, before counting and encoding; not set: those of the model (wordpiece: bert, wordpiece-pmi:
    # bert, unigram: nmt_nfkc, sentencepiece-bpe: nmt_nfkc)
    steps: str | None = None
    # for unigram and sentencepiece-bpe: a space before each text
    add_dummy_prefix: bool | None = None
    # for unigram and sentencepiece-bpe: no spaces at the ends of a text, and one where there are several
    remove_extra_whitespaces: bool | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pretokenize:
    """[pretokenize]"""

    # split pattern by name; not set: that of the model (wordpiece: bert, wordpiece-pmi: bert, unigram: metaspace,
    # sentencepiece-bpe: metaspace)
    pattern: str | None = None
    # a split pattern of your own; replaces pattern; slower
    regex: str | None = None
    # for bpe: a list of steps, as JSON, as pre_tokenizer of tokenizer.json has it; replaces pattern
    steps: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """[plan]"""

    # size of an input range
    range_bytes: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Count:
    """[count]"""

    # a longer pre-token is cut at a character for counting; 0 keeps it whole
    max_pretoken_bytes: int | None = None
    # per worker; a larger table spills to disk, nothing is dropped
    memory_bytes: int | None = None
    # share of documents counted, by hash of (seed, document key)
    sample: Number | None = None
    # pre-tokens that touch a span of these kinds are not counted
    mask: str | None = None
    # which documents are learned from, where there is a validation split; not set: train, in outputs that began without
    # it all
    splits: Literal["train", "all"] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mix:
    """[mix]"""

    # what is mixed: languages, sources by their names, for a mixture also partitions by keys, such as topic/quality; or
    # levels, the first shared out first: ["group", "lang", "source"]; others are family and script of languages, and
    # for a mixture keys of partitions
    over: str | Sequence[str] | None = None
    # level = how it is shared out: alpha, weights or shares, and max_epochs; languages, or without them the first
    # level, as the table itself says, others in proportion to their sizes
    levels: Mapping[str, Mapping[str, Number | Mapping[str, Number]]] | None = None
    # for the level group: name = list of languages; others are in the group other
    groups: Mapping[str, Sequence[str]] | None = None
    # how the counts of languages are weighted
    strategy: Literal["temperature", "unimax", "natural", "weights", "parity"] | None = None
    # for temperature: shares p become p**alpha; 1 is natural, 0 makes languages equal
    alpha: Number | None = None
    # for temperature: p**alpha is multiplied by (bytes per pre-token / their mean)**density; 0: not at all
    density: Number | None = None
    # for temperature: the most that bytes per pre-token / their mean counts as
    density_cap: Number | None = None
    # for temperature: sets alpha, density and density_cap for premiums closer to 1
    preset: Literal["fair"] | None = None
    # for temperature and unimax: the unit of a language's size
    unit: Literal["bytes", "pretokens", "documents"] | None = None
    # for unimax, which requires it: how often a language may be repeated
    max_epochs: Number | None = None
    # for unimax, in units; not set: the size of the corpus
    budget: int | None = None
    # for weights: language or source = factor on its counts; 1 if not named
    weights: Mapping[str, Number] | None = None
    # for parity: languages whose premium is higher get more weight than temperature gives them, round by round
    target_premium: Number | None = None
    # for parity, which requires it: a folder with a file LANG.txt or LANG.txt.zst for each language, line N of which is
    # the same sentence everywhere; premiums are those of its odd lines
    parallel: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Learn:
    """[learn]

    >>> Learn(vocab_size=65_536).model is None
    True
    """

    # bpe: byte-level BPE; byte: a token for each byte, id = its value; wordpiece: words and their parts, by frequent
    # pairs, as BERT's; wordpiece-pmi: the same by count(ab) / (count(a) count(b)); unigram: the most probable pieces,
    # as SentencePiece's Unigram and T5's; sentencepiece-bpe: merges of characters, as SentencePiece's BPE and Llama
    # 2's; character: the most frequent characters, as many as character_coverage asks for; word: the most frequent pre-
    # tokens, whole; codepoint: a token for each code point, id = its number; pathpiece: fewest tokens, PathPiece's,
    # from BPE of superset times the size
    model: str | None = None
    # a number, or a list of them: a tokenizer of each size; special tokens included; exact, or an error that says why;
    # not set: bpe: 32,768; byte: 256 and the special tokens; wordpiece: 30,522; wordpiece-pmi: 30,522; unigram: 8,000;
    # sentencepiece-bpe: 8,000; character: follows from character_coverage; word: 32,768; codepoint: all code points and
    # the special tokens; pathpiece: 32,768
    vocab_size: int | Sequence[int] | None = None
    # for bpe: a tokenizer, as tokenizer.from names one, whose ids all stay; further merges get ids after its last, and
    # its normalizer, split pattern and special tokens are taken over
    extend: str | None = None
    # accept fewer tokens if the counts give no more
    allow_smaller: bool | None = None
    # pairs with a smaller weighted count (divided by the scale) are not merged
    min_count: int | None = None
    # pre-tokens in fewer documents, over all languages, take no part; 0 and 1: all take part
    min_documents: int | None = None
    # no merge makes a longer token; 0: no limit
    max_token_bytes: int | None = None
    # what learning may take; bpe then reads its rows from a temporary file, others are refused; not set: what the
    # machine and its control group leave
    memory_bytes: int | None = None
    # for bpe: the last byte of a pre-token is a token of its own, whose name ends with this: </w>, as in CLIP; texts
    # then do not come back
    end_of_word: str | None = None
    # for byte and codepoint: ids and special tokens of a published tokenizer, ByT5's or CANINE's; not set: special
    # tokens come last
    layout: Literal["byt5", "canine"] | None = None
    # for character, unigram and sentencepiece-bpe: the share of the text that single characters cover
    character_coverage: Number | None = None
    # for pathpiece: size of the BPE from which tokens are dropped, as a multiple of vocab_size; 1: none is
    superset: Number | None = None
    # for unigram and sentencepiece-bpe: the most characters of a piece
    max_sentencepiece_length: int | None = None
    # for unigram and sentencepiece-bpe: no piece has characters of two scripts
    split_by_unicode_script: bool | None = None
    # for unigram and sentencepiece-bpe: digits count as characters of another script than letters
    split_by_number: bool | None = None
    # for unigram and sentencepiece-bpe: no piece crosses a space; false needs pre-tokens that do: pretokenize.regex
    split_by_whitespace: bool | None = None
    # for unigram and sentencepiece-bpe: each digit is a piece of its own
    split_digits: bool | None = None
    # for unigram and sentencepiece-bpe: 256 pieces spell what no piece matches, which would be unknown
    byte_fallback: bool | None = None
    # for unigram and sentencepiece-bpe: texts that are always one piece
    user_defined_symbols: Sequence[str] | None = None
    # for unigram and sentencepiece-bpe: special tokens after <unk>, <s> and </s>
    control_symbols: Sequence[str] | None = None
    # a file with a Jinja chat template, for tokenizer_config.json; changes no id
    chat_template: str | None = None
    # tokens that a model takes at once, for tokenizer_config.json: its model_max_length; changes no id
    max_length: int | None = None
    # special tokens without use are added until vocab_size is a multiple of this, 64 or 128 for speed on GPUs; for a
    # vocab_size that is exact
    pad_to_multiple_of: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Special:
    """[special] "TEXT" = { ... }, or just the role"""

    # what the token is for
    role: str | None = None
    # pins the id, after all ordinary tokens unless the model has special tokens of its own; not set: the lowest free
    # one
    id: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Encode:
    """[encode]"""

    # where learn.vocab_size is a list: the size that documents are encoded with; not set: the largest. A list: the
    # others follow from the largest of it, each in an output of its own, OUTPUT-SIZE
    vocab_size: int | Sequence[int] | None = None
    # special tokens before each document; not set: the declared ones of role document_begin
    prepend: Sequence[str] | None = None
    # special tokens after each document; not set: the declared ones of role document_end
    append: Sequence[str] | None = None
    # how to read corpus text that spells a special token; it is counted
    special_text: Literal["ordinary", "special", "reject"] | None = None
    # share of unknown tokens above which the build fails, for tokenizers that have one; 1 = never
    max_unknown: Number | None = None
    # for bpe and wordpiece: the probability with which a merge, or a token that matches, is passed over; 0: never
    dropout: Number | None = None
    # for unigram: { theta = 0.1 } draws cuts in proportion to exp(theta * sum of scores); not set: the best cut
    sampling: Mapping[str, Number] | None = None
    # for dropout and sampling, beside build.seed: another one draws other tokens
    epoch: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shards:
    """[shards]"""

    # file formats of the shards; each holds the same tokens
    formats: str | None = None
    # a shard ends with the document that reaches it
    target_tokens: int | None = None
    # one sequence of shards, or one per language
    by: Literal["plan", "lang"] | None = None
    # lang and fields of [metadata]: a sequence of shards for each of their values, in KEY=VALUE/
    partition_by: Sequence[str] | None = None
    # for fields of numbers in partition_by: { quality = [0.2, 0.5, 0.8] }; bin 1 is from 0.2 on, below 0.5
    bins: Mapping[str, Sequence[Number]] | None = None
    # a build with more, each of which has files of its own, ends early
    max_partitions: int | None = None
    # share of documents, by key, for the validation split
    validation: Number | None = None
    # for Arrow, Parquet and documents files
    compression: Literal["zstd", "lz4", "none"] | None = None
    # type of the ids in formats that leave the choice; uint16 is half the size, for at most 65,536 ids
    dtype: Literal["int32", "uint16", "uint32"] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shuffle:
    """[shuffle]"""

    # the order of documents follows from it, their keys and texts alone; not set: the order of the plan
    seed: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mixture:
    """[mixture]: the training documents of the shards in other proportions, written beside them"""

    # what is mixed: languages, sources by their names, for a mixture also partitions by keys, such as topic/quality; or
    # levels, the first shared out first: ["group", "lang", "source"]; others are family and script of languages, and
    # for a mixture keys of partitions
    over: str | Sequence[str] | None = None
    # level = how it is shared out: alpha, weights or shares, and max_epochs; languages, or without them the first
    # level, as the table itself says, others in proportion to their sizes
    levels: Mapping[str, Mapping[str, Number | Mapping[str, Number]]] | None = None
    # for the level group: name = list of languages; others are in the group other
    groups: Mapping[str, Sequence[str]] | None = None
    # how many tokens each language, source or partition gets; not set: no mixture is written
    strategy: Literal["temperature", "unimax", "natural", "weights"] | None = None
    # for temperature: shares p of tokens become p**alpha; 1 is natural, 0 makes them equal
    alpha: Number | None = None
    # for weights: language, source or "topic=code" = factor on its tokens; 1 if not named; 0 leaves it out
    weights: Mapping[str, Number] | None = None
    # the same in a file: JSON, or TOML by its name
    weights_file: str | None = None
    # tokens of the mixture; not set: as many as there are, for weights as many as the factors give
    tokens: int | None = None
    # how often documents may come at most; others get what one then lacks; unimax requires it
    max_epochs: Number | None = None
    # file formats of the mixture; not set: those of shards.formats
    formats: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pack:
    """[pack]: rows of one length, written beside the shards"""

    # ids of a row; not set: no packed rows are written
    length: int | None = None
    # documents back to back, cut where rows end; put together so that rows are full; or in rows of their own
    strategy: Literal["concatenate", "best-fit", "one"] | None = None
    # for best-fit and one: a document longer than a row is cut at multiples of length, or fails the build
    cut: Literal["long", "never"] | None = None
    # the last row of each split, if it is partial: filled up, or kept as it is
    last: Literal["pad", "keep"] | None = None
    # special token that fills rows; not set: the one of role padding, else the last of encode.append
    padding: str | None = None
    # file formats of the rows; not set: those of shards.formats
    formats: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExistingTokenizer:
    """[tokenizer]: an existing one, so no count and no learn"""

    # tokcore.json, tokenizer.json, tekken.json, SentencePiece's .model, vocab.txt, YouTokenToMe's model, ByT5's folder,
    # a rank file, or vocab.json with merges.txt; hf://org/name is a model on the Hugging Face Hub
    from_: str
    # for vocab.json, and for a rank file that is no published one, which require it: the name of the split pattern, or
    # a regex (for a rank file, as tiktoken reads it)
    pattern: str | None = None
    # for a vocab.txt: the steps of its normalizer; not set: bert
    normalize: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Storage:
    """[storage]: where the stores' libraries find their servers; changes no byte. Never secrets"""

    # for s3: endpoint_url, region, profile, anon, requester_pays
    s3: Mapping[str, str | bool] | None = None
    # for gs: endpoint_url, project, anon, requester_pays
    gcs: Mapping[str, str | bool] | None = None
    # for abfs and az: account_name, account_host, anon
    azure: Mapping[str, str | bool] | None = None
    # for hf: endpoint
    hf: Mapping[str, str | bool] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Engine:
    """[engine]: where the work is done; changes no byte"""

    # processes of this machine, Beam's own runner in this process, Beam's job server for Flink, Prism, any server of
    # Beam's job API, or Google's Dataflow
    name: Literal["local", "direct", "flink", "prism", "portable", "dataflow"] | None = None
    # HOST:PORT of the job server; not set: for flink 127.0.0.1:8099, for prism 127.0.0.1:8073
    endpoint: str | None = None
    # pieces of work at a time; not set: as the engine does
    parallelism: int | None = None
    # worker processes of a TaskManager of flink; not set: one for each slot, at most engine.parallelism
    processes: int | None = None
    # HOST:PORT of the engine's pages, for flink of its REST interface; not set: for flink port 8081 of that host
    web: str | None = None
    # who starts workers: the engine, as processes of its hosts, or a pool of Beam's that runs already
    environment: Literal["process", "external"] | None = None
    # process: path of tokcore-worker on the engine's hosts, not set: as here; external: HOST:PORT of the pool
    worker: str | None = None
    # whether the engine's hosts see the local paths of this one
    shared_filesystem: bool | None = None
    # URL of a folder where flink keeps checkpoints of streams, which this machine can read, too
    checkpoints: str | None = None
    # for dataflow, which requires it, as all to max_workers: id of the project
    project: str | None = None
    # where workers run: us-central1; required
    region: str | None = None
    # gs:// URL of a folder for what jobs are started from; required
    staging: str | None = None
    # gs:// URL of a folder for the service; not set: temp below engine.staging
    temp: str | None = None
    # image of the workers, by tag or digest: HOST/PROJECT/NAME:TAG or NAME@sha256:HASH; required
    image: str | None = None
    # name of the workers' network; not set: the subnetwork's, or default
    network: str | None = None
    # of the workers: regions/REGION/subnetworks/NAME; its full URL if another project has it
    subnetwork: str | None = None
    # e-mail that the workers act as; not set: the project's default
    service_account: str | None = None
    # of the workers; not set: n2-standard-4
    machine_type: str | None = None
    # of the worker that learns; not set: the smallest n2-highmem that has the memory
    learn_machine_type: str | None = None
    # whether workers get public addresses; without them the subnetwork needs Private Google Access
    public_addresses: bool | None = None
    # KEY=VALUE of each label of the jobs
    labels: Sequence[str] | None = None
    # hosts of a job; not set: as the service does
    max_workers: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Update:
    """[update]: how tokcore update follows the inputs; changes no byte of a build"""

    # what becomes of the documents of input files that are no longer there; fail: nothing is changed
    vanished: Literal["keep", "remove", "fail"] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Watch:
    """[watch]: how tokcore watch follows the inputs; changes no byte of a commit, but which files are in it"""

    # from one listing of the sources to the next
    poll_seconds: Number | None = None
    # so long a file must look the same before it is taken: it may still be written
    settle_seconds: Number | None = None
    # a file is taken once this name is in its folder; * stands for the file's name: *.done, or _SUCCESS
    marker: str | None = None
    # stored bytes of a batch: a fuller one is begun at once
    batch_bytes: int | None = None
    # files of a batch
    batch_files: int | None = None
    # a batch is begun once its oldest file has waited for so long
    batch_seconds: Number | None = None
    # so often a file may fail before it is left alone, and named
    tries: int | None = None
    # a watcher without a sign of life for so long is lost, and another one commits
    lease_seconds: Number | None = None
    # so long a batch may go on after SIGTERM before it is cut short
    drain_seconds: Number | None = None
    # HOST:PORT of /healthz, /readyz and /metrics; empty: none
    listen: str | None = None
    # names of new files sort after earlier ones, as dates do: most looks list only what comes after
    sorted_names: bool | None = None
    # with sorted_names: every so many looks list everything, for late and changed files
    full_looks: int | None = None
    # a queue that tells of new files, so that a look need not wait: sqs://QUEUE, or pubsub://PROJECT/SUBSCRIPTION
    notifications: str | None = None
    # an output with this tokenizer, to compare what lands with; not set: the one it was learned in, if it is known
    drift_baseline: str | None = None
    # so much text that landed last is compared
    drift_window_bytes: int | None = None
    # drift: the bytes of a token fall by more than this share
    drift_bytes_per_token: Number | None = None
    # drift: the share of text in tokens of one or two bytes grows by more
    drift_short_tokens: Number | None = None
    # drift: a larger share of pre-tokens is not in the baseline; only if they are counted
    drift_unseen: Number | None = None
    # drift: the share of a language in the text grows or falls by more
    drift_language: Number | None = None
