package sqlite

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/aptixhq/aptix/internal/store/storetest"
)

// TestHostileRows holds row S-15 of docs/security.md.
func TestHostileRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "aptix.db")
	s := open(t, path)
	defer closeStore(t, s)
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=ignore_check_constraints(1)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	storetest.Hostile(t, s, storetest.Tables{DB: db, Columns: `SELECT m.name, c.name, CASE c.type WHEN 'BLOB' THEN 'BLOB' ELSE '' END FROM sqlite_master m, pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name NOT LIKE 'goose%'`,
		Guards: `SELECT 'DROP TRIGGER "' || name || '"' FROM sqlite_master WHERE type = 'trigger'`})
}
