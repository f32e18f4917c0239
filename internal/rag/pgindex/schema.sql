CREATE TABLE rag_indexes (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org        text        NOT NULL,
    name       text        NOT NULL,
    repo       text        NOT NULL,
    root       text        NOT NULL,
    updated_at timestamptz NOT NULL,
    UNIQUE (org, name),
    UNIQUE (org, id)
);

CREATE TABLE rag_files (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org      text   NOT NULL,
    index_id bigint NOT NULL,
    path     text   NOT NULL,
    sha256   text   NOT NULL,
    language text   NOT NULL,
    UNIQUE (org, index_id, path),
    UNIQUE (org, id),
    FOREIGN KEY (org, index_id) REFERENCES rag_indexes (org, id) ON DELETE CASCADE
);

CREATE TABLE rag_chunks (
    id         bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org        text     NOT NULL,
    file_id    bigint   NOT NULL,
    first_line integer  NOT NULL,
    last_line  integer  NOT NULL,
    text       text     NOT NULL,
    words      tsvector NOT NULL,
    FOREIGN KEY (org, file_id) REFERENCES rag_files (org, id) ON DELETE CASCADE
);
CREATE INDEX rag_chunks_file ON rag_chunks (org, file_id);
CREATE INDEX rag_chunks_words ON rag_chunks USING gin (words);
