//go:build !linux

package diskguard

import (
	"errors"
	"os"
)

// allocate gives a file space without writing it: not here.
func allocate(*os.File, int64) error { return errors.ErrUnsupported }
