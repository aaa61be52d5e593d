package fencepost

import "context"

// WriteHook is told of every fenced write (Exec, Tx, and those of runs) that begins under a context, before it waits for a connection. It
// returns the context for the write and a function that is told how it ended: nil, a *[StaleError], an [ErrUnknown] or
// another error. It is how tracing sees fenced writes.
type WriteHook func(ctx context.Context, write string, t Token) (context.Context, func(error))

type writeHookKey struct{}

// WithWriteHook returns a context whose fenced writes are told to hook. The contexts of a lease carry the values of the context that it
// was acquired with, hooks included.
func WithWriteHook(ctx context.Context, hook WriteHook) context.Context {
	return context.WithValue(ctx, writeHookKey{}, hook)
}

// WriteBegins tells the hook of ctx, if there is one, that a fenced write begins. Database packages call it; the function that it returns must be called
// once with the outcome.
func WriteBegins(ctx context.Context, write string, t Token) (context.Context, func(error)) {
	hook, ok := ctx.Value(writeHookKey{}).(WriteHook)
	if !ok || hook == nil {
		return ctx, func(error) {}
	}
	return hook(ctx, write, t)
}
