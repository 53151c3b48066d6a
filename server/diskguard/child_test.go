package diskguard

func runChild() bool { return false }
