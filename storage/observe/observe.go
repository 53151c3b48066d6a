// Package observe has the figures that the logs at brokers tell of themselves.
package observe

// Broker is where the figures of a log at brokers that is read by position go.
// Nil funcs are left out. They are called from the log's goroutines and must
// not block.
type Broker struct {
	// Foreign counts records that were no frames: what form they had
	// (see frame.Form), how many attributes and bytes of data found no place.
	Foreign func(form string, attributesLeftOut, bytesLeftOut int)
	// OutOfRange tells that a position was outside what a partition holds.
	OutOfRange func(topic, partition string, offset, minimum, maximum int64)
	// TopicChanged tells that a topic was deleted and made again.
	TopicChanged func(topic, oldID, newID string)
	// BrokerFailed tells of a request that got no answer, or an error for
	// one.
	BrokerFailed func(broker string, err error)
	// CursorsDamaged tells that a file of pull offsets could not be read;
	// usedBackup whether its backup could.
	CursorsDamaged func(usedBackup bool)
	// CheckpointFailed tells that pull offsets could not be saved.
	CheckpointFailed func(err error)
}

// WithDefaults has no nil funcs: what is left out does nothing.
func (b Broker) WithDefaults() Broker {
	if b.Foreign == nil {
		b.Foreign = func(string, int, int) {}
	}
	if b.OutOfRange == nil {
		b.OutOfRange = func(string, string, int64, int64, int64) {}
	}
	if b.TopicChanged == nil {
		b.TopicChanged = func(string, string, string) {}
	}
	if b.BrokerFailed == nil {
		b.BrokerFailed = func(string, error) {}
	}
	if b.CursorsDamaged == nil {
		b.CursorsDamaged = func(bool) {}
	}
	if b.CheckpointFailed == nil {
		b.CheckpointFailed = func(error) {}
	}
	return b
}
