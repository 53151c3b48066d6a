package main

import (
	"errors"
	"log/slog"

	"github.com/ackmesh/ackmesh/server"
)

// buildServer builds the real server.
func buildServer(server.Config, *slog.Logger) (runner, error) {
	return nil, errors.New("the server is not linked in yet")
}
