package postgres

import (
	"database/sql"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/aptixhq/aptix/internal/store/storetest"
)

// TestHostileRows holds row S-15 of docs/security.md.
func TestHostileRows(t *testing.T) {
	database := cluster.Database(t)
	s := another(t, database)
	db, err := sql.Open("pgx", database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	storetest.Hostile(t, s, storetest.Tables{DB: db, Columns: `SELECT c.table_name, c.column_name, CASE WHEN c.data_type = 'ARRAY' THEN 'text[]' ELSE c.data_type END
		FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
		WHERE t.table_type = 'BASE TABLE' AND c.table_schema = current_schema() AND c.table_name NOT LIKE 'goose%'`,
		Guards: `SELECT 'DROP TRIGGER ' || quote_ident(tgname) || ' ON ' || tgrelid::regclass FROM pg_trigger WHERE NOT tgisinternal`})
}
