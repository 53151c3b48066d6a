//go:build brokers

// Package brokers_test tests the backends, and whole servers, on real brokers
// that it installs and starts.
package brokers_test

import (
	"os"
	"testing"

	"github.com/ackmesh/ackmesh/test/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }
