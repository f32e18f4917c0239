-- An organisation's number names its full-text table, words_N.
CREATE TABLE orgs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    org    TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE indexes (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    org        TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    repo       TEXT    NOT NULL,
    root       TEXT    NOT NULL,
    embedder   TEXT    NOT NULL,
    dimension  INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    UNIQUE (org, name)
) STRICT;

CREATE TABLE files (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    org      TEXT    NOT NULL,
    index_id INTEGER NOT NULL REFERENCES indexes ON DELETE CASCADE,
    path     TEXT    NOT NULL,
    sha256   TEXT    NOT NULL,
    language TEXT    NOT NULL,
    UNIQUE (org, index_id, path)
) STRICT;
CREATE INDEX files_index ON files (index_id);

CREATE TABLE chunks (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    org        TEXT    NOT NULL,
    file_id    INTEGER NOT NULL REFERENCES files ON DELETE CASCADE,
    first_line INTEGER NOT NULL,
    last_line  INTEGER NOT NULL,
    text       TEXT    NOT NULL
) STRICT;
CREATE INDEX chunks_file ON chunks (file_id);

-- A vector is kept as bytes, a quarter of its size: see sqlite-vec's vec_quantize_int8.
CREATE TABLE vectors (
    org       TEXT    NOT NULL,
    index_id  INTEGER NOT NULL,
    file_id   INTEGER NOT NULL REFERENCES files ON DELETE CASCADE,
    chunk_id  INTEGER NOT NULL,
    embedding BLOB    NOT NULL,
    PRIMARY KEY (org, index_id, file_id, chunk_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX vectors_file ON vectors (file_id);
