"""What the public client and worker are made of. Imports grpc, protobuf and the standard library, nothing else."""
