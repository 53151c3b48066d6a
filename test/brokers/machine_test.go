//go:build brokers

package brokers_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"testing"
)

// needJava fails where what installs and runs brokers is missing.
func needJava(t testing.TB) {
	t.Helper()
	for program, install := range map[string]string{
		"java": "Java 17 or newer (apt-get install openjdk-17-jre-headless)", "mvn": "Maven 3.8 or newer (apt-get install maven)",
	} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is missing: install %s", program, install)
		}
	}
}

// freePorts finds the first of n ports side by side that are free. They are
// below those that the system gives to clients: one that tries to reach a broker
// that is down could be given the broker's port otherwise, and reach itself.
func freePorts(t testing.TB, n int) int {
	t.Helper()
	for range 50 {
		if first := 10000 + n*rand.IntN(20000/n); areFree(first, n) {
			return first
		}
	}
	t.Fatalf("no %d free ports side by side", n)
	return 0
}

func areFree(first, n int) bool {
	for port := first; port < first+n; port++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}
