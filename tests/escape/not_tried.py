"""not_tried.py - why an attack has no verdict in a column of the table of docs/security.md, or no row at all.

tools/print-escape-table prints the letter into the cell and the reasons below the table. A cell without a verdict that has no
reason here fails test_escape_documented.py.
"""

REASONS = {
    "a": "sessions, and the daemon with its doors, need namespaces: at the levels with Landlock only there are none",
    "b": "the attack is on the daemon, whose code is the same for every user; tried with root's, which has more to lose",
    "c": "a request is refused or answered by the daemon's doors before any runtime is asked",
    "d": "boxes have no network. The egress proxy is for installer boxes, which only the runtime `local` has; a container has no "
         "network, or with `DOCKER_NETWORK_ENABLED` Docker's own",
    "e": "zygotes outside of boxes, installer boxes and the launcher's messages are of the runtime `local`. A container's zygote is one "
         "of its guest's processes, and templates are a part of its image",
    "f": "of containers only: their engine's sockets, and what a caller might request of it",
    "g": "no socket can be made there, and kernel memory is not watched (see above)",
    "h": "replies of a guest's server are read by the broker, whatever made the box",
}
NAMESPACES_REFUSED = ("refused", "root-refused")
EGRESS = range(46, 57)
DOORS = (66, 67, 68, 84, 85, 86, 87)
LOCAL_ONLY = (77, 78, 79)
CONTAINERS_ONLY = (43, 70)
PORTS = 55

# Numbers of the list of attacks that have no row.
WITHOUT_ROW = {
    38: "no decision is made by a seccomp notification, and a guest's own listener is refused (39)",
    47: "in the row of 46, whose tests try both",
    53: "Unix sockets of the host are attacked with 33",
    54: "there are no placeholders for secrets: a box gets a secret only if a caller passes it in, and has no network",
    73: "no memory of a box is ever saved and restored; the processes of a paused session are stopped, not copied",
    74: "side channels are documented [below](#side-channels), not prevented",
}


def reason(number, way, runtime):
    """The letter of the reason why this cell has no verdict, or None."""
    if runtime != "local":
        return "h" if number == PORTS else "d" if number in EGRESS else "c" if number in DOORS else "e" if number in LOCAL_ONLY else None
    if number in CONTAINERS_ONLY:
        return "f"
    if way in NAMESPACES_REFUSED:
        return "g" if number == 76 else "a"
    return "b" if way == "ordinary" else None
