package frame

// Names of the attributes that CloudEvents defines, or that extensions of it do.
// Sources: CloudEvents 1.0.2, its Partitioning and Distributed Tracing extensions.
const (
	AttrID              = "id"
	AttrSource          = "source"
	AttrType            = "type"
	AttrSubject         = "subject"
	AttrTime            = "time"
	AttrDataContentType = "datacontenttype"
	AttrDataSchema      = "dataschema"
	AttrSpecVersion     = "specversion" // stored only where it is not 1.0
	AttrPartitionKey    = "partitionkey"
	AttrTraceParent     = "traceparent"
	AttrTraceState      = "tracestate"
)

// Names of attributes that ask the mesh for something. Publishers set them.
const (
	// AttrTTL is how long after its append an event may be delivered, in
	// milliseconds; see ParseTTL.
	AttrTTL = "emttl"
	// AttrDeliverTime is when a delayed event is due: RFC 3339 or milliseconds
	// since 1970.
	AttrDeliverTime = "emdeliverytime"
)

// Names of attributes that only the mesh sets; see Reserved.
const (
	// AttrPopCK is the check key under which a popped message is acked.
	AttrPopCK = "empopck"
	// AttrMQOffset is the offset of the record in its partition.
	AttrMQOffset = "emmqoffset"
	// AttrMQPartition is the partition of the record.
	AttrMQPartition = "emmqpartition"
	// AttrDLQID is the identity of a dead letter.
	AttrDLQID = "emdlqid"
	// AttrDLQReason is why a record was dead-lettered.
	AttrDLQReason = "emdlqreason"
	// AttrDLQTopic is the topic a dead letter comes from.
	AttrDLQTopic = "emdlqtopic"
	// AttrDLQPartition is the partition a dead letter comes from.
	AttrDLQPartition = "emdlqpartition"
	// AttrDLQOffset is the offset a dead letter had.
	AttrDLQOffset = "emdlqoffset"
	// AttrDLQSubscriber is the subscriber that failed.
	AttrDLQSubscriber = "emdlqsubscriber"
	// AttrDLQAttempts is how often the record was tried.
	AttrDLQAttempts = "emdlqattempts"
	// AttrToSubscriber addresses a replayed dead letter to one subscriber.
	AttrToSubscriber = "emtosubscriber"
)

const (
	dlqPrefix   = "emdlq"
	payloadName = "data" // no attribute may be called so
)

// Reserved reports whether only the mesh may set the attribute: empopck,
// emmqoffset, emmqpartition, emtosubscriber, and every name that begins with
// emdlq. A publisher's event with such a name is refused; one found in a log
// that others write is not to be trusted. It does not allocate.
func Reserved[T string | []byte](name T) bool {
	if len(name) < len(dlqPrefix) || name[0] != 'e' || name[1] != 'm' {
		return false
	}
	if string(name[:len(dlqPrefix)]) == dlqPrefix {
		return true
	}
	switch len(name) {
	case len(AttrPopCK):
		return string(name) == AttrPopCK
	case len(AttrMQOffset):
		return string(name) == AttrMQOffset
	case len(AttrMQPartition):
		return string(name) == AttrMQPartition
	case len(AttrToSubscriber):
		return string(name) == AttrToSubscriber
	}
	return false
}

// nameByte says which bytes a CloudEvents attribute name may have.
var nameByte = func() (t [256]bool) {
	for c := 'a'; c <= 'z'; c++ {
		t[c] = true
	}
	for c := '0'; c <= '9'; c++ {
		t[c] = true
	}
	return t
}()

func nameChars[T string | []byte](name T) bool {
	for i := 0; i < len(name); i++ {
		if !nameByte[name[i]] {
			return false
		}
	}
	return true
}

// checkName refuses what CloudEvents does not allow as the name of an
// attribute: anything but a-z and 0-9, the empty name, and "data", which event
// formats use for the payload (CloudEvents 1.0.2, attribute naming convention).
func checkName[T string | []byte](name T) error {
	switch {
	case len(name) == 0:
		return errAttr(ErrName, fieldName, name, "the name is empty")
	case len(name) > MaxNameLen:
		return errAttrLimit(fieldName, name, int64(len(name)), MaxNameLen)
	case !nameChars(name):
		return errAttr(ErrName, fieldName, name, "use only a-z and 0-9")
	case string(name) == payloadName:
		return errAttr(ErrName, fieldName, name, "data is the payload, not an attribute")
	}
	return nil
}
