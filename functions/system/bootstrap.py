"""No route: make the installation's first owner, invoked under the caller's IAM rights."""

from interlock.edges import bootstrap

handler = bootstrap.handler
