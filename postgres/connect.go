package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// connect opens a connection beside the pool, with all that the pool does to its own.
func connect(ctx context.Context, config *pgxpool.Config, purpose string) (*pgx.Conn, error) {
	c := config.ConnConfig.Copy()
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, c); err != nil {
			return nil, err
		}
	}
	c.OnNotification = nil // the caller's hears of the caller's connections
	name := "fencepost " + purpose
	if own := c.RuntimeParams["application_name"]; own != "" {
		name = own + " (" + name + ")"
	}
	c.RuntimeParams["application_name"] = name
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := prepare(ctx, config, conn); err != nil {
		closeConn(conn)
		return nil, err
	}
	return conn, nil
}

// prepare runs the hooks that may give a connection its role.
func prepare(ctx context.Context, config *pgxpool.Config, conn *pgx.Conn) error {
	if config.AfterConnect != nil {
		if err := config.AfterConnect(ctx, conn); err != nil {
			return err
		}
	}
	fit := true
	var err error
	switch {
	case config.PrepareConn != nil:
		fit, err = config.PrepareConn(ctx, conn)
	case config.BeforeAcquire != nil:
		fit = config.BeforeAcquire(ctx, conn)
	}
	if err == nil && !fit {
		err = errors.New("the pool's own hook refused the connection")
	}
	return err
}

// closeTimeout bounds the farewell to a server that may be gone.
const closeTimeout = time.Second

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	conn.Close(ctx)
}
