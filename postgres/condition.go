package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
)

// oldestServer is the oldest release that leases work on, as server_version_num has it.
const oldestServer = 130000

// condition is what the server says of itself and of the schema.
type condition struct {
	standby, readOnly   bool
	version             int
	encoding            string
	clientEncoding      string
	installed, fenceKey bool
	books               bool   // the tables of runs are there too
	missing             string // the grants that the user lacks, as SQL
	triggers            int
	versioned           bool // the schema's version can be read
	has, knows          int64
}

// scanCondition reads the columns of the statement ready.
func scanCondition(rows pgx.Rows) (c condition, err error) {
	err = rows.Scan(&c.standby, &c.readOnly, &c.version, &c.encoding, &c.clientEncoding, &c.installed, &c.books, &c.missing, &c.fenceKey, &c.triggers, &c.versioned)
	return c, err
}

func readCondition(ctx context.Context, via link, p place) (condition, error) {
	found, err := collect(ctx, via, p.text("ready"), false, scanCondition,
		p.schema, p.names.Prefix+"leases", p.names.Prefix+"events", p.names.Prefix+"guard", p.names.Prefix+"schema_version",
		p.names.Prefix+"runs", p.names.Prefix+"dead")
	if err != nil {
		return condition{}, err
	}
	c := found[0]
	if c.knows, err = migrations(p).Newest(); err != nil {
		return c, err
	}
	if c.versioned {
		versions, err := collect(ctx, via, p.text("schema_version"), false, value[int64])
		if err != nil {
			return c, err
		}
		c.has = versions[0]
	}
	return c, nil
}

// unconverted reports that names arrive as they were sent. The driver always sends UTF-8, and a session with another encoding takes it
// for that: the same name would be another lease there.
func (c condition) unconverted() bool {
	return c.clientEncoding == "UTF8" || c.clientEncoding == "SQL_ASCII"
}

// usable says why leases cannot work, and what to do.
func (c condition) usable(p place) error {
	because := ""
	switch {
	case c.version < oldestServer:
		because = fmt.Sprintf("the server's version is %d, leases need PostgreSQL %d or newer", c.version/10000, oldestServer/10000)
	case c.standby:
		because = "this server is a standby; connect to the primary"
	case c.readOnly:
		because = "transactions are read-only here (default_transaction_read_only is on); leases need to write"
	case c.encoding != "UTF8":
		because = fmt.Sprintf("the database's encoding is %s; lease names need UTF8", c.encoding)
	case !c.unconverted():
		because = fmt.Sprintf("the sessions' client_encoding is %s, so that other sessions would not find the names of leases: "+
			"unset it for this user and database", c.clientEncoding)
	case !c.installed && c.missing == "":
		because = fmt.Sprintf("the schema is missing: %s is not there; run `fencepost migrate up`", p.names.Table("leases"))
	case c.missing != "":
		because = "the user lacks rights; let the owner run: " + c.missing
	case c.versioned && c.has < c.knows:
		because = fmt.Sprintf("the schema of %s has version %d, this program needs %d; run `fencepost migrate up`", p.names.Table("leases"), c.has, c.knows)
	case !c.books:
		because = fmt.Sprintf("the schema is too old: %s or %s is not there; run `fencepost migrate up`", p.names.Table("runs"), p.names.Table("dead"))
	case !c.fenceKey:
		because = fmt.Sprintf("%s has no unique index with fence_token, so that a fenced write would not keep a takeover out; restore the constraints of `fencepost migrate sql`",
			p.names.Table("leases"))
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", fencepost.ErrUnavailable, because)
}
