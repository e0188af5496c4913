"""The laptop's AWS: serves the handlers that template.yaml names, over HTTP, queues and the change feed."""
