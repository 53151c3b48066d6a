//go:build !linux

package badger

// Space ahead of need is taken on Linux only; elsewhere the margin that
// Options.Writable keeps is all there is.

func reserveManifest(string) error { return nil }

func makeSpare(string, int64) error { return nil }

func hasItsSpace(string) (bool, error) { return true, nil }
