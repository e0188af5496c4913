"""Which route takes a request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.edges.operations import OPERATIONS
from interlock.local.routing import Router

ROUTES = [
    ("GET", "/", "root"),
    ("GET", "/health", "health"),
    ("GET", "/v1/projects/{project}", "project"),
    ("POST", "/v1/projects/{project}/jobs", "create"),
    ("GET", "/v1/projects/{project}/jobs/{job}", "job"),
    ("GET", "/v1/projects/{project}/jobs/mine", "mine"),
    ("POST", "/v1/projects/{project}/{thing}/close", "close"),
    ("ANY", "/mcp", "mcp"),
    ("GET", "/mcp", "mcp-get"),
    ("GET", "/assets/{path+}", "asset"),
    ("ANY", "$default", "default"),
]
router: Router[str] = Router(ROUTES)


@pytest.mark.parametrize(
    ("method", "path", "target", "parameters"),
    [
        ("GET", "/", "root", {}),
        ("GET", "/health", "health", {}),
        ("POST", "/health", "default", {}),
        ("HEAD", "/health", "default", {}),
        ("GET", "/health/", "default", {}),
        ("GET", "//health", "default", {}),
        ("GET", "", "default", {}),
        ("OPTIONS", "*", "default", {}),
        ("GET", "/v1/projects/p", "project", {"project": "p"}),
        ("GET", "/v1/projects/", "default", {}),
        ("POST", "/v1/projects/p/jobs", "create", {"project": "p"}),
        ("GET", "/v1/projects/p/jobs/j-1", "job", {"project": "p", "job": "j-1"}),
        ("GET", "/v1/projects/p/jobs/mine", "mine", {"project": "p"}),
        ("GET", "/v1/projects/p/jobs/a%2Fb%20c", "job", {"project": "p", "job": "a/b c"}),
        ("POST", "/v1/projects/p/jobs/close", "close", {"project": "p", "thing": "jobs"}),
        ("POST", "/v1/projects/p/x/close", "close", {"project": "p", "thing": "x"}),
        ("POST", "/mcp", "mcp", {}),
        ("GET", "/mcp", "mcp-get", {}),
        ("GET", "/assets/a/b.css", "asset", {"path": "a/b.css"}),
        ("GET", "/assets/", "default", {}),
    ],
)
def test_match(method: str, path: str, target: str, parameters: dict[str, str]) -> None:
    match = router.match(method, path)
    assert match is not None
    assert (match.target, match.parameters) == (target, parameters)


def test_the_route_key_is_what_the_template_says() -> None:
    found = router.match("GET", "/v1/projects/p/jobs/j")
    assert found is not None
    assert found.key == "GET /v1/projects/{project}/jobs/{job}"
    default = router.match("PUT", "/v1")
    assert default is not None
    assert default.key == "$default"


def test_nothing_takes_it_without_a_default() -> None:
    assert Router([("GET", "/a", "a")]).match("GET", "/b") is None


def test_two_routes_for_one_thing_are_refused() -> None:
    with pytest.raises(ValueError, match="two routes"):
        Router([("GET", "/a/{x}", "a"), ("GET", "/a/{y}", "b")])


_part = st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789_-", min_size=1, max_size=8)


@given(st.sampled_from(sorted(OPERATIONS)), st.data())
def test_every_operation_is_found_by_its_path(name: str, data: st.DataObject) -> None:
    operation = OPERATIONS[name]
    operations: Router[str] = Router([(o.method, o.path, o.name) for o in OPERATIONS.values()])
    names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    values = {part: data.draw(_part) for part in names}
    match = operations.match(operation.method, operation.path.format(**values))
    assert match is not None
    if match.target == name:
        assert match.parameters == values
    else:  # a drawn value happened to be a literal segment of another route
        assert set(values.values()) & {part for o in OPERATIONS.values() for part in o.path.split("/")}
