package sqlite

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/aptixhq/aptix/internal/store/storetest"
)

func TestHostileRows(t *testing.T) {
	storetest.Hostile(t, func(t *testing.T) (storetest.Store, storetest.Tables) {
		path := filepath.Join(t.TempDir(), "aptix.db")
		s := open(t, path)
		db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=ignore_check_constraints(1)")
		if err != nil {
			t.Fatal(err)
		}
		return s, storetest.Tables{DB: db, Columns: `SELECT m.name, c.name, '' FROM sqlite_master m, pragma_table_info(m.name) c
			WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name NOT LIKE 'goose%'`}
	})
}
