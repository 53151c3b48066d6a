package remoting

// Request codes (org.apache.rocketmq.common.protocol.RequestCode).
const (
	reqPull            = 11
	reqGroupOffset     = 14
	reqCreateTopic     = 17
	reqSearchOffset    = 29
	reqMaxOffset       = 30
	reqMinOffset       = 31
	reqEarliestTime    = 32
	reqRoute           = 105
	reqCluster         = 106
	reqCreateGroup     = 200
	reqGroups          = 201
	reqTopicStats      = 202
	reqTopics          = 206
	reqDeleteGroup     = 207
	reqGroupStats      = 208
	reqDeleteAtBroker  = 215
	reqDeleteAtNamesrv = 216
	reqResetGroup      = 222
	reqSend            = 310
	reqSendBatch       = 320
)

// Response codes (org.apache.rocketmq.common.protocol.ResponseCode) that say
// something a caller may act on.
const (
	CodeSuccess            = 0
	CodeSystemError        = 1
	CodeSystemBusy         = 2
	CodeNotSupported       = 3
	CodeFlushDiskTimeout   = 10
	CodeSlaveNotAvailable  = 11
	CodeFlushSlaveTimeout  = 12
	CodeMessageIllegal     = 13
	CodeServiceUnavailable = 14
	CodeNoPermission       = 16
	CodeTopicNotExist      = 17
	CodePullNotFound       = 19
	CodePullRetry          = 20
	CodePullOffsetMoved    = 21
	CodeQueryNotFound      = 22
	CodeGroupNotExist      = 26
)
