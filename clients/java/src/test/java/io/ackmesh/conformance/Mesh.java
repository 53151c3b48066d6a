package io.ackmesh.conformance;

/**
 * Where a server is.
 *
 * @param grpc host:port
 * @param http host:port
 * @param control a URL that takes POST /crash
 */
record Mesh(String grpc, String http, String control) {}
