"""A Ray cluster of two nodes on the loopback interface, in a process of its own.

    python -m tests.two_nodes        then, a line each on standard input:
    busy    prints how many tasks the second node works on
    kill    kills the second node, as a lost machine
    lose    kills the first one, and with it the cluster
Standard input closed, all of it ends. No listener is anywhere else than on 127.0.0.1: the program
looks, and fails otherwise.
"""
# ruff: noqa: T201

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

LOOPBACK = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Every listener on 127.0.0.1, drivers' too.
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "5",  # A lost cluster is given up sooner.
}
"""For this program's environment, and for that of whoever joins the cluster."""

IPV4, MAPPED = "0100007F", "0000000000000000FFFF00000100007F"
"""127.0.0.1, and the same as an IPv6 socket has it, as the system spells them."""


def descendants(pid: int) -> Iterator[int]:
    """The processes below one, at this moment."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            child = int(path.parent.name)
            yield child
            yield from descendants(child)


def listening(pids: set[int]) -> Iterator[str]:
    """The addresses, in hexadecimal, that these processes listen at."""
    sockets = set()
    for pid in pids:
        for handle in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                sockets.add(str(handle.readlink()))
            except OSError:
                continue
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                yield fields[1].partition(":")[0]


def busy(raylet: int) -> int:
    """How many workers below a raylet are in the middle of one of our tasks."""
    found = 0
    for pid in descendants(raylet):
        try:
            title = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        found += title.startswith(b"ray::_fulfil")
    return found


def main() -> None:
    """Serves until standard input ends."""
    os.environ.update(LOOPBACK)
    from ray.cluster_utils import Cluster

    memory = {"object_store_memory": 100_000_000, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **memory})
    second = cluster.add_node(num_cpus=1, object_store_memory=100_000_000)
    found = set(listening({*descendants(os.getpid())}))
    if not found or found - {IPV4, MAPPED}:
        raise SystemExit(f"listeners elsewhere than on 127.0.0.1: {found}")
    print(cluster.address, flush=True)
    for line in sys.stdin:
        if line.strip() == "busy":
            print(busy(second.all_processes["raylet"][0].process.pid), flush=True)
        elif line.strip() == "kill":
            cluster.remove_node(second, allow_graceful=False)
            print("killed", flush=True)
        elif line.strip() == "lose":
            cluster.head_node.kill_all_processes(check_alive=False, allow_graceful=False)
            print("lost", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
