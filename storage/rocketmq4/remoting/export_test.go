package remoting

// Decompress is decompress.
var Decompress = decompress
