package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
)

// Migrations is the versioned schema of one database package.
type Migrations struct {
	Dialect goose.Dialect
	Names   Names
	Files   fs.FS // the .sql files, with goose's annotations, at the root
	// TableExists, if set, says whether the table of versions is there, where goose's own look does not understand a quoted schema.
	TableExists func(ctx context.Context, db database.DBTxConn) (bool, error)
}

// versionTable keeps which migrations ran. It has the prefix too, so that two installations in one database stay apart.
const versionTable = "fencepost_schema_version"

// Up applies what is missing and returns the versions that it applied. It takes no lock: the caller serializes
// replicas that start together, by the means of its engine.
func (m Migrations) Up(ctx context.Context, db *sql.DB) ([]int64, error) {
	p, err := m.provider(db)
	if err != nil {
		return nil, err
	}
	results, err := p.Up(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	versions := make([]int64, len(results))
	for i, r := range results {
		versions[i] = r.Source.Version
	}
	return versions, nil
}

// Version returns the newest version that the database has and the newest that this program knows.
func (m Migrations) Version(ctx context.Context, db *sql.DB) (has, knows int64, err error) {
	p, err := m.provider(db)
	if err != nil {
		return 0, 0, err
	}
	return p.GetVersions(ctx)
}

// Print writes the whole schema as SQL with goose's annotations, which are comments to every other tool.
func (m Migrations) Print(w io.Writer) error {
	files, err := fs.Glob(m.Files, "*.sql")
	if err != nil {
		return err
	}
	for i, name := range files {
		text, err := fs.ReadFile(m.Files, name)
		if err != nil {
			return err
		}
		if i > 0 {
			text = bytes.Replace(text, []byte("-- +goose Up\n"), nil, 1) // goose takes one in a file
		}
		if _, err := fmt.Fprintf(w, "-- %s\n%s\n", name, m.Names.Render(string(text))); err != nil {
			return err
		}
	}
	return nil
}

func (m Migrations) provider(db *sql.DB) (*goose.Provider, error) {
	store, err := database.NewStore(database.Dialect(m.Dialect), m.Names.Render(versionTable))
	if err != nil {
		return nil, err
	}
	if m.TableExists != nil {
		store = lookingStore{store, m.TableExists}
	}
	return goose.NewProvider("", db, renderedFS{m.Files, m.Names},
		goose.WithStore(store), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
}

// lookingStore is a store of versions that looks for its table by itself.
type lookingStore struct {
	database.Store
	exists func(ctx context.Context, db database.DBTxConn) (bool, error)
}

// TableExists implements goose's database.StoreExtender.
func (s lookingStore) TableExists(ctx context.Context, db database.DBTxConn) (bool, error) {
	return s.exists(ctx, db)
}

// renderedFS shows the files of another file system with the configured names in them.
type renderedFS struct {
	fs.FS
	names Names
}

func (r renderedFS) Open(name string) (fs.File, error) {
	f, err := r.FS.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil || info.IsDir() {
		return f, err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	rendered := []byte(r.names.Render(string(text)))
	return &renderedFile{Reader: bytes.NewReader(rendered), info: renderedInfo{info, int64(len(rendered))}}, nil
}

type renderedFile struct {
	*bytes.Reader
	info renderedInfo
}

func (f *renderedFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *renderedFile) Close() error               { return nil }

type renderedInfo struct {
	fs.FileInfo
	size int64
}

func (i renderedInfo) Size() int64 { return i.size }

// Newest returns the newest version that this program knows. It asks no database.
func (m Migrations) Newest() (int64, error) {
	files, err := fs.Glob(m.Files, "*.sql")
	if err != nil {
		return 0, err
	}
	newest := int64(0)
	for _, name := range files {
		v, err := goose.NumericComponent(name)
		if err != nil {
			return 0, err
		}
		newest = max(newest, v)
	}
	return newest, nil
}
