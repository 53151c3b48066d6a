package delivery

// Window bounds what a stream holds, by records and by bytes. The zero value
// is paused. It is not safe for concurrent use.
type Window struct {
	// MaxRecords and MaxBytes are the limits; 0: paused, negative: none. They
	// may be changed at any time; what is held above a lowered one stays.
	MaxRecords int
	MaxBytes   int64

	records int
	bytes   int64
}

// Reserve takes n records with together that many bytes into the window, all
// or none, and tells whether they fit. A single record that is larger than
// MaxBytes fits when no other is held.
func (w *Window) Reserve(n int, bytes int64) bool {
	if w.MaxRecords == 0 || w.MaxBytes == 0 {
		return false
	}
	if w.MaxRecords > 0 && n > w.MaxRecords-w.records {
		return false
	}
	alone := n == 1 && w.records == 0
	if w.MaxBytes > 0 && bytes > w.MaxBytes-w.bytes && !alone {
		return false
	}
	w.records += n
	w.bytes += bytes
	return true
}

// Release gives back what Reserve took; more than is held counts as all.
func (w *Window) Release(n int, bytes int64) {
	w.records = max(0, w.records-n)
	w.bytes = max(0, w.bytes-bytes)
}

// Held is what is in the window.
func (w *Window) Held() (records int, bytes int64) { return w.records, w.bytes }

// Free is how many records still fit, as far as is known without their sizes:
// 0 when paused or full of bytes, unlimited when there is no limit of records.
func (w *Window) Free() int {
	full := w.MaxBytes == 0 || (w.MaxBytes > 0 && w.bytes >= w.MaxBytes && w.records > 0)
	switch {
	case w.MaxRecords == 0 || full:
		return 0
	case w.MaxRecords < 0:
		return unlimited
	}
	return max(0, w.MaxRecords-w.records)
}

// unlimited is what Free answers when there is no limit.
const unlimited = int(^uint(0) >> 1)
