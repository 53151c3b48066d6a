package remoting

// Decompress is decompress.
var Decompress = decompress

// DecodeUpTo and MaxInner are for tests.
var DecodeUpTo = decodeUpTo

const MaxInner = maxInner
