// Command ackmesh serves events and works with a server from the shell.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly end. After it the signals do again
	// what they do by default, so that a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	code := newApp().run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
