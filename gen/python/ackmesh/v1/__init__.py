"""Generated messages and gRPC stubs of package ackmesh.v1."""
