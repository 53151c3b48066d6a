package badger

// runChild runs what a test re-executed this binary for; false: nothing.
func runChild() bool { return false }
