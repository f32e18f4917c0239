-- The journal. Every key begins with organisation and session, and apart from
-- lists, sweeps and branches no statement spans two sessions, so the schema can be sharded
-- as it is. Times are microseconds since 1970 in UTC, 0 for none. Columns that
-- hold JSON are bytea, because their bytes are kept as they came; so are texts
-- that clients and models write, which may hold the zero byte that text refuses.
-- Keys compare byte by byte, whatever locale the database has.
--
-- Some indexes have a condition that every row fulfils. A query that is to use such an
-- index names the condition, and no other query can: else the planner, which knows
-- sessions by their average, takes it for as good as the primary key, and looks a turn
-- up by walking all turns of its session.
--
-- Migrations only go forward. A database with a newer schema than the program
-- knows is refused when it is opened.

-- +goose Up
CREATE TABLE sessions (
  org                  text COLLATE "C" NOT NULL,
  session_id           text COLLATE "C" NOT NULL,
  created_by           text    NOT NULL,
  mode                 text    NOT NULL CHECK (mode <> ''),
  version              bigint  NOT NULL,
  system_prompt        bytea   NOT NULL,
  client_tools         bytea,
  agent_context        text    NOT NULL,
  conversation_context text    NOT NULL,
  solution_context     bytea   NOT NULL,
  concurrency          text    NOT NULL,
  last_response_id     bytea   NOT NULL,
  -- turns counts, so that the next ordinal is known without looking at the turns.
  turns                bigint  NOT NULL,
  created_at           bigint  NOT NULL,
  updated_at           bigint  NOT NULL,
  PRIMARY KEY (org, session_id)
) WITH (fillfactor = 80); -- each turn updates its row, which then finds space beside it

CREATE INDEX sessions_newest ON sessions (org, created_at, session_id) WHERE created_at > 0;

-- Append-only; written together with sessions.mode.
CREATE TABLE mode_changes (
  org        text COLLATE "C" NOT NULL,
  session_id text COLLATE "C" NOT NULL,
  sequence   bigint  NOT NULL,
  previous   text    NOT NULL,
  mode       text    NOT NULL CHECK (mode <> previous),
  reason     bytea   NOT NULL,
  at         bigint  NOT NULL,
  user_id    text    NOT NULL,
  actor      text    NOT NULL,
  turn_id    text COLLATE "C" NOT NULL,
  call_id    bytea   NOT NULL,
  branch     boolean NOT NULL,
  PRIMARY KEY (org, session_id, sequence),
  FOREIGN KEY (org, session_id) REFERENCES sessions (org, session_id) ON DELETE CASCADE
);

-- One tool call changes the mode once, however often it is run.
CREATE UNIQUE INDEX mode_changes_call ON mode_changes (org, session_id, turn_id, call_id) WHERE call_id <> '';

CREATE TABLE turns (
  org                 text COLLATE "C" NOT NULL,
  session_id          text COLLATE "C" NOT NULL,
  turn_id             text COLLATE "C" NOT NULL,
  ordinal             bigint  NOT NULL,
  user_id             text    NOT NULL,
  state               text    NOT NULL CHECK (state IN ('accepted', 'running', 'waiting', 'completed', 'failed', 'cancelled')),
  -- A queued turn waits for its session: it is accepted, and it is not active yet.
  queued              boolean NOT NULL,
  request             bytea,
  body_sha256         text    NOT NULL,
  mode                text    NOT NULL,
  tools               bytea,
  stream              boolean,
  response            bytea,
  fault               bytea,
  continuation_sha256 text    NOT NULL,
  deadline            bigint  NOT NULL,
  created_at          bigint  NOT NULL,
  updated_at          bigint  NOT NULL,
  -- steps counts, so that this row alone decides whether a transition follows on.
  steps               bigint  NOT NULL,
  -- Who runs the turn, and until when by the clock of this database: '' and 0 when
  -- nobody does. epoch counts the owners; what one of them writes after the next has
  -- come is refused.
  owner               text    NOT NULL,
  epoch               bigint  NOT NULL,
  lease_until         bigint  NOT NULL,
  PRIMARY KEY (org, session_id, turn_id),
  FOREIGN KEY (org, session_id) REFERENCES sessions (org, session_id) ON DELETE CASCADE
) WITH (fillfactor = 80);

CREATE UNIQUE INDEX turns_ordinal ON turns (org, session_id, ordinal) WHERE ordinal > 0;

-- One active turn per session, and the short list that the sweeps walk.
CREATE UNIQUE INDEX turns_active ON turns (org, session_id) WHERE state IN ('accepted', 'running', 'waiting') AND NOT queued;

-- The turns of a session that wait, in the order in which they came.
CREATE INDEX turns_queued ON turns (org, session_id, ordinal) WHERE queued;

-- Append-only. Contents that a step repeats are cut out of its data and its items;
-- cuts says where they were (store.Holes), NULL that nothing was.
CREATE TABLE steps (
  org         text COLLATE "C" NOT NULL,
  session_id  text COLLATE "C" NOT NULL,
  turn_id     text COLLATE "C" NOT NULL,
  n           bigint NOT NULL,
  kind        text   NOT NULL,
  first_event bigint NOT NULL,
  at          bigint NOT NULL,
  data        bytea  NOT NULL,
  items       bytea,
  cuts        bytea,
  PRIMARY KEY (org, session_id, turn_id, n),
  FOREIGN KEY (org, session_id, turn_id) REFERENCES turns (org, session_id, turn_id) ON DELETE CASCADE
);

-- Contents of artifacts and images, once per organisation.
CREATE TABLE blobs (
  org        text COLLATE "C" NOT NULL,
  sha256     text COLLATE "C" NOT NULL,
  mime_type  bytea  NOT NULL,
  data       bytea  NOT NULL,
  created_at bigint NOT NULL,
  PRIMARY KEY (org, sha256)
);

-- Which turn uses which content. A content that goes in the moment in which another
-- session takes it up breaks the second reference; that write is done again.
CREATE TABLE blob_refs (
  org        text COLLATE "C" NOT NULL,
  session_id text COLLATE "C" NOT NULL,
  turn_id    text COLLATE "C" NOT NULL,
  sha256     text COLLATE "C" NOT NULL,
  PRIMARY KEY (org, session_id, turn_id, sha256),
  FOREIGN KEY (org, session_id, turn_id) REFERENCES turns (org, session_id, turn_id) ON DELETE CASCADE,
  CONSTRAINT blob_refs_blob FOREIGN KEY (org, sha256) REFERENCES blobs (org, sha256)
);

CREATE INDEX blob_refs_content ON blob_refs (org, sha256, session_id);
