package main

import (
	"context"
	"database/sql"
)

// plainSQL is a plainDB of database/sql.
type plainSQL struct{ *sql.DB }

func (p plainSQL) exec(ctx context.Context, statement string, args ...any) error {
	_, err := p.ExecContext(ctx, statement, args...)
	return err
}

func (p plainSQL) text(ctx context.Context, query string) (text string, err error) {
	err = p.QueryRowContext(ctx, query).Scan(&text)
	return text, err
}
