"""A small MCP server by whichever of the three Python packages is installed: mcp 2, mcp 1 or fastmcp.

    mcp_server.py TRANSPORT [PORT]        stdio, streamable-http or sse
"""
import sys

from pydantic import BaseModel


class Point(BaseModel):
    """Nested, so that the schema has references."""
    x: int
    y: int
    label: str | None = None


def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return str(a + b)


def centre(points: list[Point]) -> str:
    """The centre of some points."""
    count = len(points)
    return f"{sum(p.x for p in points) / count},{sum(p.y for p in points) / count}"


def fail(why: str) -> str:
    """Always fails."""
    raise ValueError(why)


def make(port):
    try:
        from mcp.server import MCPServer
        server = MCPServer("interop")
        return server, {"port": port}
    except ImportError:
        pass
    try:
        from fastmcp import FastMCP
        return FastMCP("interop"), {"port": port, "host": "127.0.0.1"}
    except ImportError:
        from mcp.server.fastmcp import FastMCP
        return FastMCP("interop", port=port), {}


def main():
    transport, port = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    server, options = make(port)
    for tool in (add, centre, fail):
        server.tool()(tool)
    server.run(transport=transport, **(options if transport != "stdio" else {}))


main()
