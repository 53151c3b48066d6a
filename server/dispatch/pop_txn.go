package dispatch

import (
	"context"
	"errors"
	"sync"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// popTxnPairs and popTxnBytes bound what one transaction writes or removes of
// messages. A large window is finished in one go, and a store on a small disk
// takes less than that at once; these are well within what it does.
const (
	popTxnPairs = 256
	popTxnBytes = 32 << 10
)

// pairBytes is about what a record takes in a transaction.
func pairBytes(r *offsetstore.Record) int { return len(r.Space) + len(r.Key) + len(r.Value) + 64 }

// cutRecords cuts records into lists that each fit a transaction.
func cutRecords(list []offsetstore.Record) (parts [][]offsetstore.Record) {
	from, bytes := 0, 0
	for i := range list {
		size := pairBytes(&list[i])
		if n := i - from; n > 0 && (n == popTxnPairs || bytes+size > popTxnBytes) {
			parts = append(parts, list[from:i])
			from, bytes = i, 0
		}
		bytes += size
	}
	if from < len(list) {
		parts = append(parts, list[from:])
	}
	return parts
}

// submitAll submits transactions in order. done is called once, when all have
// their fate, with that of each.
func submitAll(s offsetstore.Store, txns []*offsetstore.Txn, done func(errs []error)) {
	var mu sync.Mutex
	errs, left := make([]error, len(txns)), len(txns)
	for i, txn := range txns {
		s.Submit(txn, func(err error) {
			mu.Lock()
			errs[i] = err
			left--
			last := left == 0
			mu.Unlock()
			if last {
				done(errs)
			}
		})
	}
}

// submitUnsets removes records, at least one and however many. done is called
// once, when all are gone or some could not be removed.
func submitUnsets(s offsetstore.Store, list []offsetstore.Record, done func(error)) {
	var txns []*offsetstore.Txn
	for _, part := range cutRecords(list) {
		txns = append(txns, &offsetstore.Txn{Unsets: part})
	}
	submitAll(s, txns, func(errs []error) { done(errors.Join(errs...)) })
}

// unsetAll removes records, however many, and waits for it, or for ctx.
func unsetAll(ctx context.Context, s offsetstore.Store, list []offsetstore.Record) error {
	if len(list) == 0 {
		return nil
	}
	ch := make(chan error, 1)
	submitUnsets(s, list, func(err error) { ch <- err })
	select {
	case err := <-ch:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
