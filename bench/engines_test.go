package bench

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/mysql"
	"github.com/fencepost/fencepost/postgres"
	"github.com/fencepost/fencepost/sqlite"
)

var engines = []struct {
	name string
	open func(b *testing.B) engine
}{
	{"sqlite", openSQLite},
	{"postgres", openPostgres},
	{"mariadb", func(b *testing.B) engine { return openInnoDB(b, testenv.MariaDB(b)) }},
	{"mysql", func(b *testing.B) engine { return openInnoDB(b, testenv.MySQL(b)) }},
}

// table has the columns that a lease cannot do without, and work is a business row.
var table = []string{
	"CREATE TABLE raw_leases (name VARCHAR(200) NOT NULL PRIMARY KEY, owner VARCHAR(100), fence BIGINT NOT NULL, until BIGINT)",
	"INSERT INTO raw_leases VALUES ('pair', NULL, 1, NULL)",
	"CREATE TABLE raw_many (name VARCHAR(200) NOT NULL PRIMARY KEY, owner VARCHAR(100), fence BIGINT NOT NULL, until BIGINT)",
	"CREATE TABLE work (id BIGINT NOT NULL PRIMARY KEY, n BIGINT NOT NULL)",
	"INSERT INTO work VALUES (1, 0)",
}

var raw = map[string]string{
	rawTake:    "UPDATE raw_leases SET owner = 'somebody', fence = fence + 1, until = 1 WHERE name = 'pair' AND until IS NULL",
	rawFree:    "UPDATE raw_leases SET until = NULL WHERE name = 'pair' AND owner = 'somebody'",
	rawRead:    "SELECT owner, fence, until FROM raw_leases WHERE name = 'pair'",
	rawWork:    "UPDATE work SET n = n + 1 WHERE id = 1",
	rawTouch10: "UPDATE raw_many SET until = coalesce(until, 0) + 1 WHERE until IS NULL OR until > -1",
}

func fillTable(b *testing.B, exec func(statement string) error) {
	b.Helper()
	statements := append([]string(nil), table...)
	for start := 0; start < tenThousand; start += 1000 {
		insert := "INSERT INTO raw_many VALUES "
		for i := range 1000 {
			if i > 0 {
				insert += ", "
			}
			insert += fmt.Sprintf("('many-%05d', 'somebody', 1, NULL)", start+i)
		}
		statements = append(statements, insert)
	}
	for _, s := range statements {
		if err := exec(s); err != nil {
			b.Fatal(err)
		}
	}
}

func openSQLite(b *testing.B) engine {
	store, err := sqlite.Open(b.Context(), "sqlite:"+filepath.Join(b.TempDir(), "bench.db"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	return overSQL(b, store, store.DB(), store.Exec)
}

func openInnoDB(b *testing.B, server *testenv.Server) engine {
	admin, err := mysql.OpenPool(b.Context(), server.URL)
	if err != nil {
		b.Fatal(err)
	}
	defer admin.Close()
	name := testenv.DatabaseName(b)
	if _, err := admin.ExecContext(b.Context(), "CREATE DATABASE "+name); err != nil {
		b.Fatal(err)
	}
	db, err := mysql.OpenPool(b.Context(), server.URLFor(name))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	if _, err := mysql.Migrate(b.Context(), db); err != nil {
		b.Fatal(err)
	}
	store, err := mysql.Open(b.Context(), server.URLFor(name))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	return overSQL(b, store, db, store.Exec)
}

func overSQL(b *testing.B, store fencepost.Store, db *sql.DB, exec func(context.Context, fencepost.Token, string, ...any) (int64, error)) engine {
	fillTable(b, func(statement string) error {
		_, err := db.ExecContext(b.Context(), statement)
		return err
	})
	return engine{
		store: store,
		fenced: func(ctx context.Context, t fencepost.Token) error {
			_, err := exec(ctx, t, raw[rawWork])
			return err
		},
		raw: func(ctx context.Context, statement string) error {
			if statement == rawRead {
				return db.QueryRowContext(ctx, raw[statement]).Scan(new(sql.NullString), new(sql.NullInt64), new(sql.NullInt64))
			}
			_, err := db.ExecContext(ctx, raw[statement])
			return err
		},
	}
}

func openPostgres(b *testing.B) engine {
	ctx := b.Context()
	server := testenv.Postgres(b)
	admin, err := pgx.Connect(ctx, server.URL)
	if err != nil {
		b.Fatal(err)
	}
	defer admin.Close(ctx)
	name := testenv.DatabaseName(b)
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		b.Fatal(err)
	}
	pool, err := pgxpool.New(ctx, server.URLFor(name))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	if _, err := postgres.Migrate(ctx, pool); err != nil {
		b.Fatal(err)
	}
	store, err := postgres.New(ctx, pool)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	fillTable(b, func(statement string) error {
		_, err := pool.Exec(ctx, statement)
		return err
	})
	return engine{
		store: store,
		fenced: func(ctx context.Context, t fencepost.Token) error {
			_, err := store.Exec(ctx, t, raw[rawWork])
			return err
		},
		raw: func(ctx context.Context, statement string) error {
			if statement == rawRead {
				var owner *string
				var fence, until *int64
				return pool.QueryRow(ctx, raw[statement]).Scan(&owner, &fence, &until)
			}
			_, err := pool.Exec(ctx, raw[statement])
			return err
		},
	}
}
