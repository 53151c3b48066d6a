// Package load is the application of the benchmark: it publishes, subscribes,
// touches every byte that it receives, acks, and measures, in the same way for
// every system. A Driver is what differs between systems. It uses the standard
// library only, so that a driver's module needs nothing else of this one.
//
// A load runs in a process of its own, started by the benchmark with a Spec on
// standard input; it prints a Result on standard output.
package load
