package tracecheck

import "errors"

// Promise is something that the mesh promises.
type Promise struct {
	// Name is that of its function.
	Name string
	// Err is what a breach wraps.
	Err error
	// Check returns the first breach in a trace; nil: it is kept.
	Check func(*Trace) error
}

// Promises are all of them.
func Promises() []Promise {
	return []Promise{
		{"Complete", ErrBrokeComplete, Complete},
		{"Faithful", ErrBrokeFaithful, Faithful},
		{"Once", ErrBrokeOnce, Once},
		{"AckFinal", ErrBrokeAckFinal, AckFinal},
		{"Remembered", ErrBrokeRemembered, Remembered},
		{"Monotone", ErrBrokeMonotone, Monotone},
		{"NoSkip", ErrBrokeNoSkip, NoSkip},
		{"Ordered", ErrBrokeOrdered, Ordered},
		{"AttemptsRise", ErrBrokeAttemptsRise, AttemptsRise},
		{"UniqueIDs", ErrBrokeUniqueIDs, UniqueIDs},
		{"Bounded", ErrBrokeBounded, Bounded},
		{"Exclusive", ErrBrokeExclusive, Exclusive},
		{"BrokerAfterClient", ErrBrokeBrokerAfterClient, BrokerAfterClient},
	}
}

// Check holds a trace against all promises but those of except, and returns
// the first breach of each, joined. A trace that clients cannot have recorded
// is ErrMalformed.
func Check(t *Trace, except ...error) error {
	if err := wellFormed(t); err != nil {
		return err
	}
	var errs []error
	for _, p := range Promises() {
		if !contains(except, p.Err) {
			errs = append(errs, p.Check(t))
		}
	}
	return errors.Join(errs...)
}

func contains(list []error, err error) bool {
	for _, e := range list {
		if e == err { //nolint:errorlint // the sentinels themselves are compared
			return true
		}
	}
	return false
}
