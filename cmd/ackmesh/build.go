package main

import (
	"log/slog"

	"github.com/ackmesh/ackmesh/server"
)

// buildServer builds the real server.
func buildServer(cfg server.Config, logger *slog.Logger) (runner, error) {
	return server.New(cfg, logger)
}
