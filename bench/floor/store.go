package floor

import (
	"context"
	"database/sql"
	"errors"
	"net/url"

	_ "modernc.org/sqlite" // the driver that Aptix has
)

// maxGroup is how many turns one transaction takes at most.
const maxGroup = 256

// store keeps the items of sessions in a SQLite file, durably: write-ahead log, synced
// with each commit.
type store struct {
	writing, reading *sql.DB
	turns            chan turn // waiting for the group's writer; nil commits each by itself
	written          chan struct{}
}

// turn is what one turn adds to its session.
type turn struct {
	session string
	items   [][]byte
	done    chan error
}

func openStore(path string, group bool) (_ *store, err error) {
	query := url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(10000)"}, "_txlock": {"immediate"}}
	dsn := "file:" + path + "?" + query.Encode()
	s := &store{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.writing, err = sql.Open("sqlite", dsn); err != nil {
		return nil, err
	}
	s.writing.SetMaxOpenConns(1)
	if _, err := s.writing.Exec(`CREATE TABLE item (session TEXT, seq INTEGER, body BLOB, PRIMARY KEY (session, seq)) WITHOUT ROWID`); err != nil {
		return nil, err
	}
	if s.reading, err = sql.Open("sqlite", dsn); err != nil {
		return nil, err
	}
	s.reading.SetMaxOpenConns(8)
	s.reading.SetMaxIdleConns(8)
	if group {
		s.turns, s.written = make(chan turn, maxGroup), make(chan struct{})
		go s.writeGroups()
	}
	return s, nil
}

// close ends the writer, whose turns must all be saved, and closes the file.
func (s *store) close() error {
	if s.turns != nil {
		close(s.turns)
		<-s.written
	}
	var err error
	for _, db := range []*sql.DB{s.reading, s.writing} {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}
	return err
}

// load returns the items of a session in their order.
func (s *store) load(ctx context.Context, session string) (_ [][]byte, err error) {
	rows, err := s.reading.QueryContext(ctx, `SELECT body FROM item WHERE session = ? ORDER BY seq`, session)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var items [][]byte
	for rows.Next() {
		var body []byte
		if err := rows.Scan(&body); err != nil {
			return nil, err
		}
		items = append(items, body)
	}
	return items, rows.Err()
}

// save returns when the turn is on the disk.
func (s *store) save(session string, items [][]byte) error {
	t := turn{session, items, make(chan error, 1)}
	if s.turns == nil {
		return s.commit(t)
	}
	s.turns <- t
	return <-t.done
}

// writeGroups commits all turns that wait in one transaction, until there will be no
// more of them.
func (s *store) writeGroups() {
	defer close(s.written)
	for t := range s.turns {
		group := []turn{t}
		for len(group) < maxGroup && len(s.turns) > 0 {
			group = append(group, <-s.turns)
		}
		err := s.commit(group...)
		for _, t := range group {
			t.done <- err
		}
	}
}

func (s *store) commit(turns ...turn) error {
	tx, err := s.writing.Begin()
	if err != nil {
		return err
	}
	for _, t := range turns {
		for _, body := range t.items {
			if _, err := tx.Exec(`INSERT INTO item SELECT ?1, coalesce(max(seq), 0) + 1, ?2 FROM item WHERE session = ?1`, t.session, body); err != nil {
				return errors.Join(err, tx.Rollback())
			}
		}
	}
	return tx.Commit()
}
